"""The Graph-SVM in norms that couple queries: least nuclear norm, spectral norm, or largest entry."""
