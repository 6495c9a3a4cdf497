"""Reads KAI-Scheduler's exported cases, runs them round by round, and compares the results."""
