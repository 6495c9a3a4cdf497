"""A simulated week before the first start of the demo: drawn, run by the engine, and written in bulk."""
