"""The style guide: every component of the console on one page."""
