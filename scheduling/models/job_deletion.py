"""Deletions of finished jobs."""

from __future__ import annotations

from django.db import models

from foundation.models import BaseModel
from scheduling.models.job import Job


class JobDeletion(BaseModel):
    """A finished job that a user deleted. The job itself stays: usage, cost, audit and preemptions name it.

    It is a table of its own, so that lists of many jobs are still read from their indexes alone.
    """

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="deletion")

    def __str__(self) -> str:
        return f"deletion of {self.job_id}"
