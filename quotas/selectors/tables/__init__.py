"""The quota of nodes as pages show it: rows, sums, the tree and its flows."""
