"""The states of a job: transitions, endings, retries and the journal of both."""
