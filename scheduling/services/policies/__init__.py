"""Changes policies, priority classes and their grants."""
