"""This package evicts jobs that break a limit of time, use, size or node health."""
