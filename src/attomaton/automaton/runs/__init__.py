"""Runs on disk: how they lie, how they are asked part by part, and how parts become one."""
