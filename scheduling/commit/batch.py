"""The rows and sums of one commit transaction, which are written together at its end."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from clusters.models import Cell
from clusters.services.grants import DeviceAmount, NodeAmount
from foundation.sql.bulk import insert_values
from quotas.models import QuotaKey
from quotas.tree import QuotaTree
from scheduling.commit.limits import AdmissionLimits
from scheduling.engine import model as em
from scheduling.lifecycle.journal import JournalStep, log_jobs
from scheduling.models import Claim, Decision, DecisionKind, Job, JobEvent
from scheduling.snapshots import CellSnapshot

CHUNK: Final = 500
"""Rows per statement, and ids per query."""
Row = tuple[Any, ...]
"""The values of a row to be written, in the order of its table's column names."""
_EVENT: Final = ("job_id", "at", "code", "numbers")
_DECISION: Final = ("cell_id", "job_id", "cycle", "epoch", "kind", "code", "numbers", "beneficiary_id")


@dataclass(slots=True)
class CommitBatch:
    """The rows that one transaction writes. `jobs` are the locked and current jobs by id; `bound` are the
    tasks that get a placement; `unclaimed` are the jobs whose claim ends.
    """

    cell: Cell
    now: datetime
    taken: CellSnapshot
    tree: QuotaTree[em.FlavorResource]
    jobs: Mapping[str, Job]
    limits: AdmissionLimits
    attempts: list[Row] = field(default_factory=list)
    allocations: list[Row] = field(default_factory=list)
    slices: list[Row] = field(default_factory=list)
    bound: list[uuid.UUID] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    decisions: list[Row] = field(default_factory=list)
    claims: dict[uuid.UUID, Claim] = field(default_factory=dict)
    unclaimed: set[uuid.UUID] = field(default_factory=set)
    evicted: list[Job] = field(default_factory=list)
    given_up: list[tuple[Job, tuple[str, ...]]] = field(default_factory=list)
    ledger: Counter[QuotaKey] = field(default_factory=Counter)
    nodes: defaultdict[uuid.UUID, NodeAmount] = field(default_factory=lambda: defaultdict(NodeAmount))
    devices: defaultdict[uuid.UUID, DeviceAmount] = field(default_factory=lambda: defaultdict(DeviceAmount))
    admitted: dict[uuid.UUID, Job] = field(default_factory=dict)
    dropped: int = 0

    def add_event(self, job: Job, code: str, numbers: Mapping[str, Any]) -> None:
        """Add an event to a job's timeline."""
        self.events.append((job.pk, self.now, code, dict(numbers)))

    def add_decision(
        self,
        job: Job,
        kind: DecisionKind,
        code: str,
        numbers: Mapping[str, Any],
        beneficiary: str | None = None,
    ) -> None:
        """Add a decision about a job."""
        self.decisions.append(decision_row(self.cell, job, kind, code, numbers, beneficiary))


def decision_row(
    cell: Cell,
    job: Job,
    kind: DecisionKind,
    code: str,
    numbers: Mapping[str, Any],
    beneficiary: str | None = None,
) -> Row:
    """Return the row of a decision of the cell's current cycle, to be written by `write_decisions`."""
    beneficiary_id = uuid.UUID(beneficiary) if beneficiary else None
    return cell.pk, job.pk, cell.cycle_number, cell.epoch, kind, code, dict(numbers), beneficiary_id


def write_events(rows: Sequence[Row]) -> None:
    """Write job events, and log them once the transaction is committed."""
    insert_values(JobEvent, _EVENT, rows)
    log_jobs(JournalStep(job, code, numbers=numbers) for job, _, code, numbers in rows)


def write_decisions(rows: Sequence[Row]) -> None:
    """Write decisions about jobs."""
    insert_values(Decision, _DECISION, rows)


def task_key(allocation: em.Allocation) -> tuple[str, int]:
    """Return the key of a task within its job: role name and index."""
    return allocation.role, allocation.index
