"""Quotas as files: import, export and the short form in GPUs."""
