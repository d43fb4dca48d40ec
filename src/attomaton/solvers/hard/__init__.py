"""Hard retrieval: the Graph-SVM, which gives the direction of the weights."""
