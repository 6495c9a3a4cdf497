"""Submits many jobs to one workspace in one request, such as a sweep over parameters.

Jobs are independent: a refused job does not stop the others. The data for the checks is read once, and all
accepted jobs are written together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import IntegrityError, transaction

from foundation.core import clock
from foundation.core.errors import AllotmentError
from foundation.sql import row_scope
from scheduling.models import TERMINAL_STATES, Job
from scheduling.services.jobs.job import note_submissions
from scheduling.services.jobs.job_check import Checks, Submission
from scheduling.services.jobs.job_read import reading_of
from scheduling.services.jobs.job_rows import Rows, create_many, name_taken
from tenants.models import Tenant, User

_TRIES: Final = 3


@dataclass(slots=True)
class BatchEntry:
    """One job file of a batch and its result: `job` or `error`; an accepted job of a dry run has neither."""

    body: Any
    checked: Submission | None = None
    job: Job | None = None
    error: AllotmentError | None = None

    @property
    def name(self) -> str:
        """The name in the job file; empty if there is none."""
        if self.checked is not None:
            return self.checked.spec.name
        name = self.body.get("name") if isinstance(self.body, dict) else None
        return name if isinstance(name, str) else ""


def jobs_submit(
    *,
    acting_user: User,
    workspace: Tenant,
    bodies: Iterable[Any],
    now: datetime | None = None,
    dry_run: bool = False,
) -> list[BatchEntry]:
    """Submit the job files that pass the checks, in their order; return the result of each.

    `dry_run`: check, and write nothing.
    Raises: PermissionDenied, NotFound; Conflict for an archived workspace.
    """
    entries = [BatchEntry(body) for body in bodies]
    with row_scope.read_transaction():
        _check(entries, Checks(acting_user, workspace))
        _refuse_taken(entries, workspace)
    if not dry_run:
        _write(entries, acting_user, workspace, now or clock.now())
    return entries


def _check(entries: Sequence[BatchEntry], checks: Checks) -> None:
    ahead = tasks = 0
    for entry in entries:
        try:
            spec = reading_of(entry.body, checks.policy).spec
            entry.checked = checks.check(spec, ahead=ahead, tasks_ahead=tasks)
        except AllotmentError as error:
            entry.error = error
        else:
            ahead += 1
            tasks += spec.task_count


def _refuse_taken(entries: Sequence[BatchEntry], workspace: Tenant) -> None:
    """Refuse entries whose name a live job or an earlier entry has."""
    asked = [entry.name for entry in entries if entry.error is None]
    live = Job.unscoped.filter(workspace=workspace, name__in=asked).exclude(state__in=TERMINAL_STATES)
    taken = set(live.order_by().values_list("name", flat=True))
    for entry in entries:
        if entry.error is not None:
            continue
        if entry.name in taken:
            entry.error = name_taken(entry.name)
        taken.add(entry.name)


def _write(entries: Sequence[BatchEntry], acting_user: User, workspace: Tenant, now: datetime) -> None:
    """Write the accepted jobs. If a concurrent submission has taken a name, that job is refused.

    Raises: IntegrityError when names are taken by concurrent submissions in every one of `_TRIES` tries.
    """
    for tries in range(_TRIES):
        good = [(entry, entry.checked) for entry in entries if entry.checked and not entry.error]
        accepted = [(entry, checked.build_rows(now)) for entry, checked in good]
        try:
            _write_all(acting_user, [rows for _, rows in accepted])
        except IntegrityError:
            if tries == _TRIES - 1:
                raise
            _refuse_taken(entries, workspace)
            continue
        for entry, rows in accepted:
            rows.job.workspace = workspace
            entry.job = rows.job
        return


@transaction.atomic
def _write_all(acting_user: User, many: Sequence[Rows]) -> None:
    if many:
        create_many(many)
        note_submissions(acting_user, [rows.job for rows in many])
