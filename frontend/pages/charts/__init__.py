"""Charts of measurements: their definitions, their drawing, and their responses."""
