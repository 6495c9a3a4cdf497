"""Pages of nodes: what operators do with one, and the words for it."""
