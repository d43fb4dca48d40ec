"""Heads that write something else than they read, also where several tokens of a context write the label."""
