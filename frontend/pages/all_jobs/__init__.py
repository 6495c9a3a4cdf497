"""The jobs of all workspaces in sight, for users with a role above workspaces."""
