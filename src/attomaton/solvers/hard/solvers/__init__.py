"""Solvers of the Graph-SVM: frozen values with a ``solve`` method for each form of the problem."""
