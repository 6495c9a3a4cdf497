"""Reading the events of jobs, and the names of what audit records are about."""
