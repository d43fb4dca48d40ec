"""Published experiments, one settings file each, and the runner that reproduces them."""
