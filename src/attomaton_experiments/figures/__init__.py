"""What only experiments draw: panels of trials, grids, maps, bags, heads."""
