"""Pages of tenants: the tree, members, groups and roles."""
