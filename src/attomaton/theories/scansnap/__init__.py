"""The second theory, "Scan and Snap" (arXiv 2305.16380): which context tokens grow and which fade.

A class of sequences is a query (the last token), a next token and a law of the tokens before the query. Read
:mod:`attomaton.theories.scansnap.classes` first, then :mod:`attomaton.theories.scansnap.law` (closed form)
and :mod:`attomaton.theories.scansnap.flow` (the differential equation itself).
"""
