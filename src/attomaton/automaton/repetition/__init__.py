"""A layer that is fed its own output: the tokens it repeats in the end, and how fast the others fade."""
