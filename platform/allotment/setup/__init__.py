"""Setting up an installation and checking it."""
