"""The list of jobs: columns, lines, and actions on several jobs."""
