"""A language model trained from its first step, with checkpoints, and what each of its heads becomes."""
