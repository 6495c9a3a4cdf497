"""The four kinds of plug-in, their registries, and the set that comes with the engine."""
