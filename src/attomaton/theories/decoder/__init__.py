"""The decoder's own limit: contexts, what follows them, and what gradient descent makes of it."""
