"""Charts of measurements: which there are, how they are drawn, and their answers."""
