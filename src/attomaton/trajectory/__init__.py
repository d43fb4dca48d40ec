"""Where the weights are at step t of training."""
