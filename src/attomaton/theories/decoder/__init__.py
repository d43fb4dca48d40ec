"""The decoder's own limit: contexts, their next tokens, and the result of gradient descent."""
