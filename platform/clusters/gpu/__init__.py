"""The partitioning of cards and its records, per mechanism; without Django and any client."""
