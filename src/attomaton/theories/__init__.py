"""Neighbours of the first theory: the beginning of training, the decoder, Scan and Snap."""
