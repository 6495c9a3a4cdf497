"""Reading the pods of a job, their output and their events from the clusters."""
