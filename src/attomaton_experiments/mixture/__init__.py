"""Predicting every position: attention, heads that write and the decoder in one mixture, and its rivals."""
