"""Attention whose scores are looked up by token, and its training at corpus size."""
