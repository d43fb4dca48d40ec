"""One layer of self-attention in PyTorch: embeddings, heads, losses, gradients of many trials at once."""
