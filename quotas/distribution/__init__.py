"""Pure arithmetic of quota distribution: division among children, and loans over time."""
