"""Heads that write tokens other than those they read, even if several context tokens write the label."""
