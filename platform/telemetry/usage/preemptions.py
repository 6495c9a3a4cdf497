"""The preemptions of a month by workspace, rule and beneficiary, with the work that they cost."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from foundation.core.actor import Actor
from foundation.core.months import from_ms, to_ms
from foundation.sql.prepared import PreparedQuery
from scheduling.engine_input.job_history import PREEMPTED
from scheduling.metering.intervals import lost_since_ms
from scheduling.metering.usage_rows import inline_few_ids, rows_of_attempts, written_losses
from scheduling.models import Attempt, Decision, DecisionKind
from telemetry.usage.periods import Period
from telemetry.usage.report import report_tenants
from tenants.models import Tenant

PREEMPTION_RULES: Final = frozenset(rule.value for rule in PREEMPTED)
_BATCH: Final = 500
_KINDS: Final = (DecisionKind.EVICT, DecisionKind.MIGRATE)
_DECIDED: Final = PreparedQuery(
    lambda jobs: (
        Decision.unscoped.filter(job__pk__any_of=jobs, kind__in=_KINDS, beneficiary__isnull=False)
        .order_by("created_at")
        .values_list("job_id", "created_at", "beneficiary__workspace_id")
    )
)


class PreemptedBy(StrEnum):
    """The beneficiary of a preemption: a job of the same workspace, of a tenant whose jobs the reader may
    see, of another tenant, or an unknown job."""

    OWN = "own"
    TENANT = "tenant"
    OTHER = "other"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionRow:
    """Preemptions of one workspace by one rule for one beneficiary.

    `tenant` is set for `PreemptedBy.TENANT` alone. `lost` is the work since the last checkpoints, in
    percent points of a GPU x milliseconds.
    """

    workspace: Tenant
    rule: str
    by: PreemptedBy
    tenant: Tenant | None
    count: int
    lost: int


@dataclass(frozen=True, slots=True)
class UserLosses:
    """The preemptions of the jobs of one user, and the work that they cost, as in `PreemptionRow`."""

    user: str
    count: int
    lost: int


@dataclass(frozen=True, slots=True)
class PreemptionReport:
    """The same preemptions summed in two ways, each with the most costly first."""

    rows: Sequence[PreemptionRow]
    users: Sequence[UserLosses]


@dataclass(frozen=True, slots=True)
class JobLoss:
    """The work that the preemption of a run discarded, as in `PreemptionRow`, and the start of the lost time.

    `since` is the last checkpoint by the interval that the job declares (`checkpointed`), or the start of the
    run for a job without one; None for a run that never started.
    """

    lost: int
    since: datetime | None
    checkpointed: bool


class _Run(NamedTuple):
    attempt_id: uuid.UUID
    job_id: uuid.UUID
    workspace_id: uuid.UUID
    rule: str
    admitted_at: datetime
    ended_at: datetime
    metered_at: datetime | None
    user: str


def preemption_report(viewer: Actor, period: Period, *, tenant: Tenant | None = None) -> PreemptionReport:
    """Return the preemptions of the runs that ended in the period.

    For a `tenant` with all below it, or for all visible tenants. Raises: NotFound, PermissionDenied.
    """
    runs, in_sight = _read_runs(viewer, period, tenant), report_tenants(viewer)
    lost = _read_losses(runs, period)
    seen = None if in_sight is None else set(in_sight.values_list("pk", flat=True))
    return PreemptionReport(_sum_by_workspace(runs, lost, seen), _sum_by_user(runs, lost))


def _sum_by_workspace(
    runs: Sequence[_Run], lost: Mapping[uuid.UUID, int], seen: Collection[uuid.UUID] | None
) -> Sequence[PreemptionRow]:
    beneficiaries = _read_beneficiaries({run.job_id for run in runs})
    sums: defaultdict[tuple[uuid.UUID, str, PreemptedBy, uuid.UUID | None], list[int]] = defaultdict(
        lambda: [0, 0]
    )
    for run in runs:
        whose = _find_beneficiary(run, beneficiaries.get(run.job_id, ()))
        by = _classify(run, whose, seen)
        counted = sums[run.workspace_id, run.rule, by, whose if by is PreemptedBy.TENANT else None]
        counted[0] += 1
        counted[1] += lost.get(run.attempt_id, 0)
    named = Tenant.unscoped.in_bulk({pk for key in sums for pk in (key[0], key[3]) if pk is not None})
    rows = [
        PreemptionRow(
            workspace=named[workspace],
            rule=rule,
            by=by,
            tenant=None if whose is None else named[whose],
            count=count,
            lost=cost,
        )
        for (workspace, rule, by, whose), (count, cost) in sums.items()
    ]
    return sorted(rows, key=lambda row: (-row.lost, -row.count, row.workspace.name, row.rule, row.by))


def _sum_by_user(runs: Sequence[_Run], lost: Mapping[uuid.UUID, int]) -> Sequence[UserLosses]:
    counts, sums = Counter(run.user for run in runs), Counter[str]()
    for run in runs:
        sums[run.user] += lost.get(run.attempt_id, 0)
    rows = [UserLosses(user, count, sums[user]) for user, count in counts.items()]
    return sorted(rows, key=lambda row: (-row.lost, -row.count, row.user))


def read_job_losses(job_id: uuid.UUID, *, now: datetime) -> Mapping[datetime, JobLoss]:
    """Return the loss of each preempted run of a job, by the end of the run."""
    ended = Attempt.unscoped.filter(job=job_id, end_reason__in=PREEMPTION_RULES, ended_at__isnull=False)
    columns = ("pk", "started_at", "ended_at", "job__checkpoint_interval_s")
    runs = {pk: facts for pk, *facts in ended.values_list(*columns)}
    lost = Counter[uuid.UUID]()
    for attempt, row in rows_of_attempts(list(runs), now=now):
        lost[attempt] += row.lost * (row.end_ms - row.begin_ms)
    return {ended_at: _job_loss(lost[pk], *facts) for pk, facts in runs.items() if (ended_at := facts[1])}


def _job_loss(lost: int, started: datetime | None, ended: datetime, checkpoint_s: int | None) -> JobLoss:
    if started is None:
        return JobLoss(lost, None, checkpointed=False)
    since = lost_since_ms(
        started_ms=to_ms(started), ended_ms=to_ms(ended), checkpoint_interval_s=checkpoint_s
    )
    return JobLoss(lost, from_ms(since), checkpointed=since > to_ms(started))


def _read_runs(viewer: Actor, period: Period, tenant: Tenant | None) -> Sequence[_Run]:
    """Return the preempted runs that ended in the period. Raises: NotFound, PermissionDenied."""
    tenants = report_tenants(viewer, tenant)
    ended = Attempt.unscoped.filter(
        end_reason__in=PREEMPTION_RULES,
        ended_at__gte=from_ms(period.start_ms),
        ended_at__lt=from_ms(period.end_ms),
    )
    if tenants is not None:
        ended = ended.filter(job__workspace__in=inline_few_ids(tenants))
    columns = ("pk", "job_id", "job__workspace_id", "end_reason", "admitted_at", "ended_at")
    of_run = (*columns, "metered_at", "job__submitted_by__username")
    return [_Run(*row) for row in ended.order_by("ended_at", "pk").values_list(*of_run)]


def _read_losses(runs: Sequence[_Run], period: Period) -> Mapping[uuid.UUID, int]:
    """Return by run the work that its preemption discarded: what is written down, else by allocations."""
    lost = written_losses([run.attempt_id for run in runs if run.metered_at])
    for chunk in _chunks([run.attempt_id for run in runs if not run.metered_at]):
        for attempt, row in rows_of_attempts(chunk, now=from_ms(period.end_ms)):
            lost[attempt] += row.lost * (row.end_ms - row.begin_ms)
    return lost


def _read_beneficiaries(jobs: Collection[uuid.UUID]) -> Mapping[uuid.UUID, list[tuple[datetime, uuid.UUID]]]:
    """Return by preempted job the times of its preemptions and the preemptors' workspaces."""
    found: defaultdict[uuid.UUID, list[tuple[datetime, uuid.UUID]]] = defaultdict(list)
    for job, at, workspace in _DECIDED.for_any(list(jobs)):
        found[job].append((at, workspace))
    return found


def _find_beneficiary(run: _Run, decided: Sequence[tuple[datetime, uuid.UUID]]) -> uuid.UUID | None:
    """Return the workspace of the job for which a run was preempted: the last decision within the run."""
    within = [workspace for at, workspace in decided if run.admitted_at <= at <= run.ended_at]
    return within[-1] if within else None


def _classify(run: _Run, whose: uuid.UUID | None, seen: Collection[uuid.UUID] | None) -> PreemptedBy:
    if whose is None:
        return PreemptedBy.UNKNOWN
    if whose == run.workspace_id:
        return PreemptedBy.OWN
    return PreemptedBy.TENANT if seen is None or whose in seen else PreemptedBy.OTHER


def _chunks(ids: Sequence[uuid.UUID]) -> Iterator[Sequence[uuid.UUID]]:
    for first in range(0, len(ids), _BATCH):
        yield ids[first : first + _BATCH]
