"""The second theory, "Scan and Snap" (arXiv 2305.16380): which context tokens grow and which fade.

:mod:`attomaton.theories.scansnap.classes` has the corpus, :mod:`attomaton.theories.scansnap.law` the closed
form, and :mod:`attomaton.theories.scansnap.flow` the differential equation.
"""
