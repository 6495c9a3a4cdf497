"""Reading the limits of quota nodes, as the arithmetic of the tree and forms need them."""
