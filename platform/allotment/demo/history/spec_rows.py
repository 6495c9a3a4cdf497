"""Builds the rows of the demo's jobs as a submission does."""

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
    """The queues, priority classes and users of the demo, read once for all its jobs."""

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
        """Return the rows of a job submitted at a moment; nothing is stored."""
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
        """Return the parsed job file. Many differ only in name and run time: the rest is parsed once."""
        key = repr([item for item in job.body.items() if item[0] not in ("name", "simulate")])
        known = self._specs.get(key)
        if known is None:
            known = self._specs[key] = parse_job(job.body)
        return replace(known, name=job.body["name"], simulate=dict(job.body["simulate"]))
