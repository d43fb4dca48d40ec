"""Fit the Luce choice model inside components: the finite part of the weights."""
