"""This package keeps arrays over the nodes of a fleet, and the facts that a task shape needs of them."""
