"""What knows nothing of the theory: errors, options, progress, tables, files, places behind URLs, kernels."""
