"""Runs exported test cases of other schedulers with the engine."""
