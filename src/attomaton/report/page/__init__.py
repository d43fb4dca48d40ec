"""One self-contained HTML page of a run: drawings, and a context box that computes predictions."""
