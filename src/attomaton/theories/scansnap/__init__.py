"""The second theory, "Scan and Snap" (arXiv 2305.16380): which context tokens grow and which fade."""
