"""Figures and pages made of results. One thing is computed here: the curve that a page shows as predicted."""
