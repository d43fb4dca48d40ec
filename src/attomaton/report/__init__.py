"""Figures and pages made of results; nothing is computed here."""
