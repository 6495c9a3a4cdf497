"""Samples on their way to the platform: the buffer, the key of the node, the requests."""
