"""Claims that jobs mount: reading them, and selecting nodes for volumes that are created on demand."""
