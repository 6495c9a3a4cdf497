"""The operators' pages: the allocation, use and free capacity of clusters."""
