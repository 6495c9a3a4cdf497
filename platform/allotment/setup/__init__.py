"""Sets up an installation and checks it."""
