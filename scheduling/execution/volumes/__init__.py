"""Reads the volume claims that jobs mount, and selects nodes for volumes that are created on demand."""
