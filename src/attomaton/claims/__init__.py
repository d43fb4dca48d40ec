"""Theorems as claims with their assumptions, and what is measured of a training run to judge them."""
