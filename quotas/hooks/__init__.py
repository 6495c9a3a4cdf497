"""Where the packages above register what a change of quota does, and what speaks for a request."""
