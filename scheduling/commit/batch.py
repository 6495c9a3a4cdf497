"""Rows and sums of one transaction, written together at its end."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from clusters.models import Cell
from clusters.services.grants import DeviceAmount, NodeAmount
from quotas.selectors.tree import TreeKey
from quotas.services.ledger import LedgerKey
from quotas.tree import QuotaTree
from scheduling.commit.limits import Limits
from scheduling.engine import model as em
from scheduling.models import (
    Allocation,
    Attempt,
    Claim,
    Decision,
    DecisionKind,
    DeviceSlice,
    Job,
    JobEvent,
)
from scheduling.snapshots import CellSnapshot

CHUNK: Final = 500
"""Rows per statement, and ids per query."""


@dataclass(slots=True)
class Batch:
    """What one transaction writes. `jobs` are locked and as they are now, by id."""

    cell: Cell
    now: datetime
    taken: CellSnapshot
    tree: QuotaTree[TreeKey]
    jobs: Mapping[str, Job]
    limits: Limits
    attempts: list[Attempt] = field(default_factory=list)
    allocations: list[Allocation] = field(default_factory=list)
    slices: list[DeviceSlice] = field(default_factory=list)
    events: list[JobEvent] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    claims: dict[uuid.UUID, Claim] = field(default_factory=dict)
    unclaimed: set[uuid.UUID] = field(default_factory=set)
    evicted: list[Job] = field(default_factory=list)
    given_up: list[tuple[Job, tuple[str, ...]]] = field(default_factory=list)
    ledger: Counter[LedgerKey] = field(default_factory=Counter)
    nodes: defaultdict[uuid.UUID, NodeAmount] = field(default_factory=lambda: defaultdict(NodeAmount))
    devices: defaultdict[uuid.UUID, DeviceAmount] = field(default_factory=lambda: defaultdict(DeviceAmount))
    admitted: dict[uuid.UUID, Job] = field(default_factory=dict)
    dropped: int = 0

    def note(
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
) -> Decision:
    """A decision of the cell's present cycle, not yet written."""
    return Decision(
        cell=cell,
        job=job,
        cycle=cell.cycle_number,
        epoch=cell.epoch,
        kind=kind,
        code=code,
        numbers=dict(numbers),
        beneficiary_id=uuid.UUID(beneficiary) if beneficiary else None,
    )


def task_key(allocation: em.Allocation) -> tuple[str, int]:
    """How a task is told from others of its job."""
    return allocation.role, allocation.index
