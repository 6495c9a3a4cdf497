"""The partitioning of cards and its records, per mechanism; free of Django and of any client."""
