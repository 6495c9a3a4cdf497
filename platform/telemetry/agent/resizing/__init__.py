"""The live change of the memory of running slices."""
