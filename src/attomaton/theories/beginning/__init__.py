"""What deep attention learns first: corpus statistics, and the weights of every layer after a few steps."""
