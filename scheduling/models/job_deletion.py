"""Deletions of finished jobs."""

from __future__ import annotations

from django.db import models

from foundation.models import BaseModel
from scheduling.models.job import Job


class JobDeletion(BaseModel):
    """The deletion of a finished job by a user. The job's row stays: usage, cost, audit and preemptions refer
    to it.

    It has its own table, so that lists of many jobs are still read from indexes only.
    """

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="deletion")

    def __str__(self) -> str:
        return f"deletion of {self.job_id}"
