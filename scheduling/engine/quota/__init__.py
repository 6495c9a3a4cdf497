"""The charge of a job, and the search for quota in the tree."""
