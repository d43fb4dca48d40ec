"""A layer that reads its own output: which tokens it repeats in the end, and how fast the others fade."""
