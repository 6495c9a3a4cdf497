"""Where the packages above register what follows from changes of clusters."""
