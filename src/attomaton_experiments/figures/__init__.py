"""Figures for experiments only: panels of trials, grids, maps, bags, heads."""
