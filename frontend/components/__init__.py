"""The values that components of a page draw."""
