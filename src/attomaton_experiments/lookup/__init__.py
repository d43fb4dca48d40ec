"""Attention with scores looked up by token, and its training at corpus size."""
