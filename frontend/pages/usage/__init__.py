"""Pages of usage, cost and prices."""
