"""Preferences among the nodes that may, and the choice of devices on one."""
