"""Solvers of the Luce problem: frozen values with a ``solve`` method."""
