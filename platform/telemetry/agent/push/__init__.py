"""Sends samples to the platform: the buffer, the key of the node, the requests."""
