"""Factored weights W = K Qᵀ under weight decay: the Graph-SVM of least nuclear norm."""
