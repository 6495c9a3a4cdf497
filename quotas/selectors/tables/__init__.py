"""The quota of nodes as it is shown: rows, sums, the tree and its flows."""
