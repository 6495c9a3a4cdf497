"""Pages about quota: the quota of tenants, its changes, and their history."""
