"""The steps of a cycle, each a class that works on the common session."""
