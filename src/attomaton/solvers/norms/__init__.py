"""Solve the Graph-SVM in norms that couple queries: nuclear norm, spectral norm, or largest entry."""
