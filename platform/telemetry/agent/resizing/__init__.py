"""Changes the memory of running slices."""
