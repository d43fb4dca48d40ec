"""Gradient flow of attention weights in log time: the equation, its implicit steps, two ways to solve them.

Use :func:`attomaton.fast_forward`.
"""
