"""The Y/Z model in PyTorch: many trials at once, from 0 or a random start, SGD with momentum or Adam."""
