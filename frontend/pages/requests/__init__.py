"""Pages about asking for quota, lending it, and limits and budgets beside it."""
