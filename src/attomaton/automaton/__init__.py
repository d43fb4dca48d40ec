"""What answers a context: the automaton of the limit, and attention with finite scores."""
