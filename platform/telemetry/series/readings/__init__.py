"""The latest readings that a viewer may see, and the idle time and excess use in them."""
