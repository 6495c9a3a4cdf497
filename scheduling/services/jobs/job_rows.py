"""Converts a specification to rows (a job, its roles, tasks and tags), and writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError
from django.utils.translation import gettext as _

from foundation.core.errors import Conflict, FieldError
from foundation.sql.bulk import insert_rows
from quotas.models import Queue
from scheduling.job_file import JobSpec, job_columns, role_columns
from scheduling.models import Job, JobRole, JobState, JobTag, PriorityClass, Task
from tenants.models import User


class JobNameTaken(Conflict):
    """Another live job of the workspace has this name."""

    code = "NAME_TAKEN"


@dataclass(frozen=True, slots=True)
class Rows:
    """A job with its roles and tasks, not written yet; the roles are set as prefetched."""

    job: Job
    roles: Sequence[JobRole]
    tasks: Sequence[Task]


def rows_of(
    spec: JobSpec, *, queue: Queue, priority: PriorityClass, submitted_by: User, min_run_s: int, now: datetime
) -> Rows:
    """Return the rows of a queued job."""
    job = Job(
        workspace_id=queue.workspace_id,
        queue=queue,
        state=JobState.QUEUED,
        submitted_by=submitted_by,
        priority_class=priority,
        priority=priority.value,
        submitted_at=now,
        reason_at=now,
        **(job_columns(spec) | {"min_run_s": min_run_s}),
    )
    roles = [
        JobRole(job=job, position=position, **role_columns(role)) for position, role in enumerate(spec.roles)
    ]
    tasks = [Task(job=job, role=role, index=index) for role in roles for index in range(role.replicas)]
    job.have_roles(roles)
    return Rows(job, roles, tasks)


def create_rows(rows: Rows) -> Job:
    """Write one job, within a transaction.

    Raises: JobNameTaken, after which the transaction has to end.
    """
    try:
        # The unique constraint decides, so that one of two concurrent submissions is refused.
        rows.job.save(force_insert=True)
    except IntegrityError as error:
        raise name_taken(rows.job.name) from error
    _create_parts([rows])
    return rows.job


def create_many(many: Sequence[Rows]) -> None:
    """Write several jobs, within a transaction.

    Raises: IntegrityError when a name is taken, after which the transaction has to end.
    """
    insert_rows(rows.job for rows in many)
    _create_parts(many)


def name_taken(name: str) -> JobNameTaken:
    """Return the refusal of a job whose name another live job has."""
    message = _("An active job named %(name)s already exists.") % {"name": name}
    return JobNameTaken(message, errors=[FieldError("name", "NAME_TAKEN", message)])


def _create_parts(many: Sequence[Rows]) -> None:
    insert_rows(role for rows in many for role in rows.roles)
    insert_rows(task for rows in many for task in rows.tasks)
    insert_rows(tag for rows in many for tag in JobTag.of_job(rows.job))
