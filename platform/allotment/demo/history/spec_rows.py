"""Rows of the demo's jobs, built as a submission builds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from allotment.demo.history.jobs import DemoJob
from quotas.models import Queue
from scheduling.job_file import JobSpec, parse_job
from scheduling.models import PriorityClass
from scheduling.services.jobs.job_rows import Rows, rows_of
from tenants.models import User


@dataclass(frozen=True, slots=True)
class SpecRows:
    """The queues, classes and people of the demo, read once for all its jobs."""

    queues: Mapping[str, Queue]
    classes: Mapping[str, PriorityClass]
    users: Mapping[str, User]
    _specs: dict[str, JobSpec] = field(default_factory=dict)

    @classmethod
    def read_references(cls) -> SpecRows:
        """Return the builder with the queues, priority classes and users of the database."""
        queues = Queue.unscoped.filter(name="default").select_related("workspace", "cell")
        return cls(
            {queue.workspace.slug: queue for queue in queues},
            {one.name: one for one in PriorityClass.unscoped.all()},
            {user.username: user for user in User.objects.all()},
        )

    def build_rows(self, job: DemoJob, *, now: datetime) -> Rows:
        """Return the rows of a job that is submitted at a moment; nothing is written."""
        spec = self._read(job)
        return rows_of(
            spec,
            queue=self.queues[job.workspace],
            priority=self.classes[spec.priority_class],
            submitted_by=self.users[job.user],
            min_run_s=spec.min_run_s or 0,
            now=now,
        )

    def _read(self, job: DemoJob) -> JobSpec:
        """Return the job file as read. Many differ in name and run time alone: the rest is read once."""
        key = repr([item for item in job.body.items() if item[0] not in ("name", "simulate")])
        known = self._specs.get(key)
        if known is None:
            known = self._specs[key] = parse_job(job.body)
        return replace(known, name=job.body["name"], simulate=dict(job.body["simulate"]))
