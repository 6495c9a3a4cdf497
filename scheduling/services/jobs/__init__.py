"""Submitting and changing jobs."""
