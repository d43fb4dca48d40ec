"""Compute the limit of a softmax decoder under gradient descent, from contexts and their next tokens."""
