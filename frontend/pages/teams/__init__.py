"""A new team on one page."""
