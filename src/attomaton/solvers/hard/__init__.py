"""Hard retrieval: the Graph-SVM, which gives the direction that the weights take.

Use :func:`attomaton.solve_graph_svm`.
"""
