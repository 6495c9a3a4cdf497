"""The index of jobs by their tags."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from django.db import models

from foundation.models import BaseModel
from scheduling.models.job import Job
from tenants.models import Tenant


class JobTag(BaseModel):
    """A tag of a job, only for searches: `Job.tags` has the tags of the job, and both are written together.

    So a list reads the tags of its rows without another query, and both databases find the jobs of a tag by
    an index; SQLite cannot index the entries of a JSON list.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+", db_index=False)
    workspace = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_index=False)
    name = models.CharField(max_length=63)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "name"], name="job_tag_once_per_job"),
        ]
        indexes: ClassVar = [
            # One for the list of a workspace, and one for the jobs of all workspaces.
            models.Index(fields=["workspace", "name", "job"], name="job_by_tag"),
            models.Index(fields=["name", "job"], name="job_by_tag_anywhere"),
        ]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def of_job(cls, job: Job, names: Collection[str] | None = None) -> list[JobTag]:
        """Return unsaved rows for the job's tags, or for `names`."""
        return [
            cls(job=job, workspace_id=job.workspace_id, name=name)
            for name in (job.tags if names is None else names)
        ]
