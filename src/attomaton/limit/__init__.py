"""What training converges to: the automaton and what is known about it."""
