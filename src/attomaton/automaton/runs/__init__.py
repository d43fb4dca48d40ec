"""Runs on disk: their layout, reading on demand, and joining of parts."""
