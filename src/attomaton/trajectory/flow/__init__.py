"""Gradient flow of attention weights in log time: implicit steps, and two ways to solve them."""
