"""The values that components of a page show."""
