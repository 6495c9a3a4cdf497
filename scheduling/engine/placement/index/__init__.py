"""Arrays over the nodes of a fleet, and what a shape asks of them."""
