"""What a job is charged, and whether the quota tree lets it in."""
