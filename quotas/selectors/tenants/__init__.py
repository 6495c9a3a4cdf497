"""The quota of tenants, teams and users: budgets, usage, limits."""
