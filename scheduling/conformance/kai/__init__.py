"""Reads KAI-Scheduler's exported cases, plays them round by round, and compares."""
