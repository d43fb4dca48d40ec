"""The published figures of the second paper, one file each; a figure returns a :class:`.page.Page`."""
