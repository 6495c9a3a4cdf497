"""Endpoints for pending jobs: reasons, expected start, and what would start now."""
