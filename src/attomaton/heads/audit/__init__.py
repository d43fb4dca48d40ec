"""What explains where attention heads look: rungs of explanation, label seeking, causal value, controls."""
