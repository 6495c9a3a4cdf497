"""Pages about quota requests, temporary quota, limits and budgets."""
