"""Orders of jobs: criteria, their chains, and the usage-based order of users."""
