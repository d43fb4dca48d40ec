"""The beginning of training (arXiv 2601.19208): published curves, how long they hold, how attention turns."""
