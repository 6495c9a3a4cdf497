"""This package scores the nodes that pass the filters, and chooses devices on one of them."""
