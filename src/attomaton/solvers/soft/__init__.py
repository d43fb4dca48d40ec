"""Soft composition: the Luce choice model inside components, which gives the finite part of the weights.

Use :func:`attomaton.solve_luce`.
"""
