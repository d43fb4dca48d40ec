"""The Graph-SVM in the norms of other optimisers: least largest entry, least largest singular value."""
