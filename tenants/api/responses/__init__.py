"""Responses of the REST API: pages of lists, streams, and their schema."""
