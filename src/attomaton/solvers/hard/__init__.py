"""Hard retrieval: the Graph-SVM, which gives the direction that the weights take."""
