"""What would help a job that waits, tried before it is said."""
