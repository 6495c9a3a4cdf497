"""Actions of operators on nodes, and texts about them."""
