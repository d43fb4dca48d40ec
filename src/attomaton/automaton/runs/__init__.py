"""Runs on disk: their files, reading on demand, and learning partition by partition."""
