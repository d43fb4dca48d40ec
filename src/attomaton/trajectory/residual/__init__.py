"""The third term: the constant that is left of W(t) after ln t · W_svm + W_fin.

Use :func:`attomaton.expand`.
"""
