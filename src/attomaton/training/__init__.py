"""Training runs: steps, the loop over many trials at once, and the trace they leave."""
