"""Pages of nodes and their GPUs: lists, one node, one GPU, and their events."""
