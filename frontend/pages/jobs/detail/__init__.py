"""The page of one job: its tabs, attempts, commands to connect, and its job file as text."""
