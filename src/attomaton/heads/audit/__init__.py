"""What explains where attention heads look: rungs, types, next-token seeking, causal value, controls."""
