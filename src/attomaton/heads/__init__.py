"""Attention heads of trained models: where they look, and what explains it."""
