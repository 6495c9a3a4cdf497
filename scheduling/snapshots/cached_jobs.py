"""The jobs of a cell, cached between cycles and updated by comparing their versions."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from foundation.core import clock
from foundation.sql.prepared import PreparedQuery
from scheduling.engine import model as em
from scheduling.engine_input.allowances import AllowanceReader
from scheduling.engine_input.config import engine_config
from scheduling.engine_input.job_history import has_left, has_parts, pasts_of
from scheduling.engine_input.jobs import Past, RoleRow, engine_job, watched_workspaces
from scheduling.engine_input.volume_claims import ClaimKey, ClaimReader, claim_names
from scheduling.models import HOLDING_STATES, Job, JobRole, JobState
from scheduling.snapshots.jobs import SEEN, apply_limits

PORTION: Final = 500
"""The number of rows loaded by one statement: SQLite limits the parameters of a statement."""
TRUSTED_FOR: Final = timedelta(seconds=1)
"""The time after a comparison of all versions for which a brief cycle may use a partial comparison."""
_SUBMITTING: Final = timedelta(seconds=1)
"""The time by which a job's commit may follow its `submitted_at`; a partial comparison finds no later
ones."""
_NEW: Final = Past()


def _in(cell: uuid.UUID, *states: JobState) -> QuerySet[Job]:
    return Job.unscoped.filter(queue__cell_id=cell, state__in=states)


# Thousands of keys are read and looked up several times as fast as text.
_NAME: Final = Cast("pk", TextField())
_VERSIONS: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda cell: _in(cell, *SEEN).values_list(_NAME, "version")
)
_VERSIONS_AND_TIMES: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda cell: _in(cell, *SEEN).values_list(_NAME, "version", "reason_at")
)
_HOLDING: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda cell: _in(cell, *HOLDING_STATES).values_list(_NAME, "version")
)
_LATELY: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda cell, since: (
        _in(cell, JobState.QUEUED).filter(submitted_at__gt=since).values_list(_NAME, "version")
    )
)


_FRESH: Final = PreparedQuery(
    # Columns that only pods or readers need are not read.
    lambda jobs: Job.unscoped.filter(pk__any_of=jobs, state__in=SEEN).defer(
        "environment", "runtime", "simulate", "tags"
    )
)
_ROLES: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda jobs: (
        JobRole.unscoped.filter(job__pk__any_of=jobs)
        .order_by("job_id", "position")
        .values_list(*RoleRow._fields)
    )
)
_FIXED: Final = (
    *("id", "created_at", "workspace", "queue", "name", "kind", "submitted_by", "submitted_at"),
    *("min_available", "placement", "lifecycle", "environment", "volumes", "runtime", "simulate", "tags"),
)
"""The columns that never change after submission, like roles, and the tags, on which no decision depends."""
_MOVING: Final = tuple(item.attname for item in Job._meta.concrete_fields if item.name not in _FIXED)
_AGAIN: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda jobs: Job.unscoped.filter(pk__any_of=jobs, state__in=SEEN).values_list("pk", *_MOVING)
)


def key_batches(keys: Iterable[uuid.UUID]) -> Iterator[list[uuid.UUID]]:
    """Return the keys in order, in batches of `PORTION`."""
    ordered = sorted(keys)
    return (ordered[first : first + PORTION] for first in range(0, len(ordered), PORTION))


@dataclass(slots=True)
class CachedJobs:
    """The unfinished jobs of a cell, as rows and as jobs of the engine.

    `plain` are the engine's jobs without limits and volume claims, `watched` the workspaces with pod
    (anti-)affinity. `reported` is the last written outcome of a pending job, until its row changes.
    `_versions` are the versions of the rows; `compared_at` is when all of them were last compared. `decided`
    are the jobs with decisions since then, which may have started and ended meanwhile. `_mounting` has the
    volume claims of the jobs that mount any, `_unread` the jobs with a claim that was unread in the reading
    `_mounted`.
    """

    cell_id: uuid.UUID
    by_id: dict[str, Job] = field(default_factory=dict)
    reported: dict[str, em.JobOutcome] = field(default_factory=dict)
    plain: dict[str, em.Job] = field(default_factory=dict)
    watched: frozenset[uuid.UUID] = frozenset()
    pending: dict[str, None] = field(default_factory=dict)
    compared_at: datetime | None = None
    decided: set[str] = field(default_factory=set)
    _rows: dict[uuid.UUID, Job] = field(default_factory=dict)
    _versions: dict[str, int] = field(default_factory=dict)
    _roles: dict[uuid.UUID, list[RoleRow]] = field(default_factory=dict)
    _left: set[uuid.UUID] = field(default_factory=set)
    _holding: set[str] = field(default_factory=set)
    _in_parts: set[uuid.UUID] = field(default_factory=set)
    _pasts: Mapping[uuid.UUID, Past] = field(default_factory=dict)
    _speakers: dict[uuid.UUID, uuid.UUID] = field(default_factory=dict)
    _capped: set[str] = field(default_factory=set)
    _mounting: dict[str, tuple[ClaimKey, ...]] = field(default_factory=dict)
    _unread: set[str] = field(default_factory=set)
    _mounted: ClaimReader | None = None
    _limited: bool = False

    def read_changes(self, promised: frozenset[str], *, alone: bool, briefly: bool = False) -> None:
        """Read the changes; jobs that may have changed are `pending` until `complete_jobs`.

        `alone`: only this process has written reasons of these jobs since. Otherwise they are compared by
        `reason_at`, because a new reason does not change the version. `briefly`: compare only jobs with
        allocations and new jobs, not older pending jobs, whose change by a user requests a full cycle.
        """
        removed: set[uuid.UUID] = set()
        if briefly and alone and self.compared_at is not None:
            changed = self._read_moving(self.compared_at - _SUBMITTING)
        else:
            self.compared_at = clock.now()
            changed, removed = self._read_marks(alone=alone)
        self.decided.clear()
        rows = self._load(changed)
        removed.update(pk for pk in changed if pk in self._rows and pk not in rows)  # ended meanwhile
        for pk in sorted(removed):
            self._forget(pk)
        for pk, row in rows.items():
            (self._left.add if has_left(row) else self._left.discard)(pk)
            (self._holding.add if row.holds else self._holding.discard)(str(pk))
            (self._in_parts.add if has_parts(row, self._roles[pk]) else self._in_parts.discard)(pk)
        pasts = pasts_of(promised, left=self._left, in_parts=self._in_parts)
        ours = self._pasts
        moved = (pk for pk in ours.keys() | pasts.keys() if ours.get(pk, _NEW) != pasts.get(pk, _NEW))
        rows |= {pk: self._rows[pk] for pk in moved if pk in self._rows and pk not in rows}
        rows |= self._watch(rows)
        self._pasts = pasts
        self._convert(rows)

    def complete_jobs(
        self,
        limits: AllowanceReader,
        mounted: ClaimReader,
        below_cap: Callable[[list[em.Job]], list[em.Job]],
    ) -> list[em.Job]:
        """Return the `pending` jobs with their limits and claims, and other jobs whose limits may have
        changed."""
        wanted = dict.fromkeys(self.plain if limits.any or self._limited else self.pending)
        moved = self._find_otherwise_mounting(mounted)
        self.pending |= dict.fromkeys(sorted(moved))  # so that they are included again if this attempt fails
        wanted |= dict.fromkeys(sorted(self._capped | moved))
        self._limited = limits.any
        jobs = apply_limits(
            limits, [self.plain[job_id] for job_id in wanted if job_id in self.plain], self.by_id
        )
        jobs = self._apply_claims(mounted, jobs)
        return below_cap(jobs) if self._capped else jobs

    def _find_otherwise_mounting(self, mounted: ClaimReader) -> set[str]:
        """Return the jobs whose volume claims may exclude other nodes than before, or were unread before."""
        before, self._mounted = self._mounted, mounted
        changed = None if before is None else mounted.find_changed(before)
        if changed is None:
            return set(self._mounting)
        moved = {name for name, keys in self._mounting.items() if changed and not changed.isdisjoint(keys)}
        return moved | self._unread

    def _apply_claims(self, mounted: ClaimReader, jobs: list[em.Job]) -> list[em.Job]:
        """Return the jobs with the volume claims that they mount, and record the jobs with unread claims."""
        found = []
        for plain in jobs:
            job = plain
            if job.id in self._mounting:
                job = mounted.apply_claims(plain, self.by_id[plain.id])
                unread = any(claim.state is em.ClaimState.UNREAD for claim in job.rules.volume_claims)
                (self._unread.add if unread else self._unread.discard)(job.id)
            found.append(job)
        return found

    def list_mounting(self) -> list[Job]:
        """Return the jobs that mount volume claims."""
        return [self.by_id[name] for name in self._mounting]

    def _read_marks(self, *, alone: bool) -> tuple[set[uuid.UUID], set[uuid.UUID]]:
        """Return the keys of jobs that are new or have changed since they were loaded, and of removed jobs.

        Each key is looked up once: with thousands of jobs, look-ups are the main cost.
        """
        marks = _plain((_VERSIONS if alone else _VERSIONS_AND_TIMES)(self.cell_id))
        rows, versions = self.by_id, self._versions
        changed = {mark[0] for mark in marks if versions.get(mark[0]) != mark[1]}
        if not alone:
            changed |= {name for name, _, at in marks if name in rows and rows[name].reason_at != at}
        new = len(changed - versions.keys())
        some_left = len(marks) - new < len(versions)
        removed = versions.keys() - {mark[0] for mark in marks} if some_left else set()
        return {uuid.UUID(name) for name in changed}, {rows[name].pk for name in removed}

    def _read_moving(self, since: datetime) -> set[uuid.UUID]:
        """Return the keys of changed jobs among those that have or may have had allocations, or are newer
        than `since`."""
        marks = _plain([*_HOLDING(self.cell_id), *_LATELY(self.cell_id, since)])
        changed = {name for name, version in marks if self._versions.get(name) != version}
        moved = self._holding | (self.decided & self.by_id.keys())
        changed |= moved - {name for name, _ in marks}
        return {uuid.UUID(name) for name in changed}

    def _load(self, keys: Collection[uuid.UUID]) -> dict[uuid.UUID, Job]:
        """Read new jobs with their roles, and the columns of known jobs that may have changed."""
        found: dict[uuid.UUID, Job] = {}
        new = [key for key in keys if key not in self._rows]
        for job in _FRESH.for_any(new):
            found[job.pk], self._roles[job.pk] = job, []
        for row in _ROLES.for_any(list(found)):
            role = RoleRow(*row)
            self._roles[role.job_id].append(role)
        for pk, *values in _AGAIN.for_any([key for key in keys if key in self._rows]):
            found[pk] = job = self._rows[pk]
            for name, value in zip(_MOVING, values, strict=True):
                setattr(job, name, value)
        return found

    def _watch(self, fresh: Mapping[uuid.UUID, Job]) -> dict[uuid.UUID, Job]:
        """Record which jobs have pod (anti-)affinity; return the other jobs of workspaces for which that
        changed."""
        for pk, row in fresh.items():
            self._speakers.pop(pk, None)
            for workspace in watched_workspaces([(row.workspace_id, row.placement)]):
                self._speakers[pk] = workspace
        before, self.watched = self.watched, frozenset(self._speakers.values())
        turned = before ^ self.watched
        if not turned:
            return {}
        return {pk: row for pk, row in self._rows.items() if row.workspace_id in turned and pk not in fresh}

    def _convert(self, rows: Mapping[uuid.UUID, Job]) -> None:
        cap = engine_config().preemption.eviction_cap
        for pk in sorted(rows):
            row, name, roles = rows[pk], str(pk), self._roles[pk]
            self._rows[pk] = self.by_id[name] = row
            self._versions[name] = row.version
            self.reported.pop(name, None)
            if roles:  # without roles the job has ended meanwhile, or the next cycle reads it completely
                job = engine_job(row, roles, watched=self.watched, past=self._pasts.get(pk, _NEW))
                self.plain[name] = job
                self.pending[name] = None
                (self._capped.add if job.evictions >= cap else self._capped.discard)(name)
                if row.volumes and name not in self._mounting:  # the volumes of a job never change
                    keys = tuple((row.workspace_id, claim) for claim in claim_names(row.volumes))
                    self._mounting |= {name: keys} if keys else {}

    def _forget(self, pk: uuid.UUID) -> None:
        name = str(pk)
        del self._rows[pk], self._roles[pk], self._versions[name], self.by_id[name]
        for table in (self.plain, self.reported, self.pending):
            table.pop(name, None)
        self._speakers.pop(pk, None)
        self._left.discard(pk)
        self._in_parts.discard(pk)
        self._holding.discard(name)
        self._capped.discard(name)
        self._mounting.pop(name, None)
        self._unread.discard(name)


def _plain(marks: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    if connection.vendor == "postgresql":
        return marks
    return [(str(uuid.UUID(name)), *mark) for name, *mark in marks]  # SQLite casts UUIDs without hyphens
