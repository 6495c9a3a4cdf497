"""The page of one job: its tabs, attempts, connection commands, and its job file as text."""
