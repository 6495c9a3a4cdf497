"""The rows of the table of reason codes, by the checks that a job has not passed (`Gate`)."""
