"""Reads the output and the events of a job's pods from the clusters."""
