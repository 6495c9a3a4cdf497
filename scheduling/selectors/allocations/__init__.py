"""Reading what jobs hold: nodes, cards, slices, since when, and whether they use it."""
