"""Measures of training runs, and claims of the theory checked on them."""
