"""One self-contained HTML page of a run: what was learned, drawn, and a context box that computes."""
