"""The jobs of all workspaces in sight, for whoever stands above them."""
