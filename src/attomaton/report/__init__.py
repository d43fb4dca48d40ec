"""Figures and pages made of results.

Nothing is learned, solved or trained here. One thing is computed: the predicted curves beside those of a
training are followed with :func:`~attomaton.fast_forward`.
"""
