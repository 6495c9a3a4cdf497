"""Plug-ins of other packages: their discovery, and the guards that call them."""
