"""The states of a job: transitions, endings, retries, and the log of them."""
