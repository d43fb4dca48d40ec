"""A layer that is fed its own output: what it repeats in the end, and how fast everything else fades."""
