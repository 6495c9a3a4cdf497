"""Writes the decisions of an engine cycle to the database in one transaction.

The engine decides on a snapshot, and rows may have changed since. So the commit, which holds the cell's
lock, checks the epoch, computes the available quota from the current ledger, requires each job to have the
version that was read, and takes nodes and cards by guarded updates. A decision that no longer holds is
dropped with its bundle; the next cycle evaluates its jobs again.

Rows are locked in the order that every change of a job keeps: the cell, jobs, allocations, the ledger,
nodes, cards, and at last the hints.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog
from django.db import IntegrityError, transaction

from clusters.models import Cell, Node
from clusters.services.grants import NoLongerFree
from foundation.core import faults
from foundation.messaging import leases, outbox
from foundation.sql.prepared import PreparedQuery
from quotas.selectors.limits.tree import load_tree
from scheduling.commit import admission, evictions
from scheduling.commit.batch import CommitBatch, write_decisions, write_events
from scheduling.commit.bundles import Bundle, bundles_of
from scheduling.commit.limits import AdmissionLimits
from scheduling.commit.reasons import commit_reasons
from scheduling.engine import model as em
from scheduling.models import Allocation, Job
from scheduling.snapshots import CellSnapshot

log = structlog.get_logger(__name__)
_JOBS: Final = PreparedQuery(
    lambda jobs: (
        Job.unscoped.select_for_update(of=("self",), no_key=True)
        .filter(pk__any_of=jobs)
        .order_by("pk")
        .select_related("queue", "workspace")
        # These columns serve pods or readers only, and take long to read.
        .defer("placement", "environment", "volumes", "runtime", "simulate", "reason_numbers", "reason_help")
    )
)
_CLUSTERS: Final = PreparedQuery(
    lambda nodes: Node.unscoped.filter(pk__any_of=nodes).order_by().values_list("cluster_id").distinct()
)


@dataclass(slots=True)
class Committed:
    """The result of a commit: jobs admitted, marked for eviction or given a claim, decisions dropped
    together with their bundle, pending reasons changed.
    """

    admitted: int = 0
    evicted: int = 0
    promised: int = 0
    dropped: int = 0
    reasons_changed: int = 0

    def add_batch(self, batch: CommitBatch) -> None:
        """Count what one transaction did."""
        self.admitted += len(batch.admitted)
        self.evicted += len(batch.evicted)
        self.promised += len(batch.claims)
        self.dropped += batch.dropped


def commit_cycle(
    *, cell_id: uuid.UUID, epoch: int, taken: CellSnapshot, result: em.CycleResult, now: datetime
) -> Committed:
    """Write the result of one cycle.

    Raises: LeaseLost when another process has taken the cell over; then nothing is written.
    """
    # Changes of slices are written in their own transactions.
    others = [made for made in result.decisions if made.kind is not em.DecisionKind.RESIZE]
    commit, bundles, done = _Commit(cell_id, epoch, taken, now), bundles_of(others), Committed()
    try:
        if bundles:
            done.add_batch(commit.write_together(bundles))
    except (NoLongerFree, IntegrityError):
        # A node, a card or quota was taken or failed since the snapshot, or a row cannot be written. The
        # bundles are written one by one, so that only the decisions that no longer hold are dropped.
        for bundle in bundles:
            commit.write_alone(bundle, done)
    done.reasons_changed = commit_reasons(cell_id, epoch, taken, result.outcomes, now)
    return done


@dataclass(frozen=True, slots=True)
class _Commit:
    """The commit of one cycle's result."""

    cell_id: uuid.UUID
    epoch: int
    taken: CellSnapshot
    now: datetime

    def write_alone(self, bundle: Bundle, done: Committed) -> None:
        """Write one bundle, or drop it if it cannot be written."""
        try:
            done.add_batch(self.write_together([bundle]))
            return
        except NoLongerFree as error:
            log.info("decision dropped", jobs=sorted(bundle.jobs), why=error.detail)
        except IntegrityError as error:
            log.exception("decision cannot be written", jobs=sorted(bundle.jobs), why=str(error))
        done.dropped += 1

    @transaction.atomic
    def write_together(self, bundles: Sequence[Bundle]) -> CommitBatch:
        """Write all bundles that still hold in one transaction.

        Raises: LeaseLost, NoLongerFree, IntegrityError; then nothing is written.
        """
        cell = leases.lock_current(Cell, self.cell_id, self.epoch)
        jobs = _lock_jobs(bundles)
        current = {key for key, job in jobs.items() if job.version == self.taken.jobs[key].version}
        _lock_allocations(jobs, bundles)
        limits = AdmissionLimits(_admitted(bundles, jobs), self.now)
        batch = CommitBatch(cell, self.now, self.taken, load_tree(self.cell_id), jobs, limits)
        tasks = admission.tasks_of(decision for bundle in bundles for decision in bundle.decisions)
        for bundle in bundles:
            if bundle.jobs <= current and self._carry_out(batch, bundle, tasks):
                continue
            batch.dropped += 1
            log.info("decision dropped", jobs=sorted(bundle.jobs), why="quota or a job itself has changed")
        faults.fault_point("commit.before_write")
        _write(batch)
        faults.fault_point("commit.after_write")
        return batch

    def _carry_out(self, batch: CommitBatch, bundle: Bundle, tasks: admission.TaskIds) -> bool:
        """Carry out a bundle if all its decisions still hold; return whether it was carried out."""
        first = bundle.decisions[0]
        if first.kind is em.DecisionKind.ADMIT:
            return admission.admit_job(batch, first, tasks)
        if first.kind is em.DecisionKind.GROW:
            return admission.grow_job(batch, first)
        known = (*em.RELEASING_KINDS, em.DecisionKind.PARK)
        if not all(d.kind in known and evictions.holds_still(batch, d) for d in bundle.decisions):
            return False
        evictions.carry_out(batch, bundle)
        return True


def _lock_jobs(bundles: Iterable[Bundle]) -> dict[str, Job]:
    ids = sorted(uuid.UUID(job) for job in {job for bundle in bundles for job in bundle.jobs})
    return {str(job.pk): job for job in _JOBS.for_any(ids)}


def _admitted(bundles: Iterable[Bundle], jobs: Mapping[str, Job]) -> list[Job]:
    kinds = (em.DecisionKind.ADMIT, em.DecisionKind.GROW)
    starting = (d.job for bundle in bundles for d in bundle.decisions if d.kind in kinds)
    return [jobs[job] for job in starting if job in jobs]


def _lock_allocations(jobs: dict[str, Job], bundles: Iterable[Bundle]) -> None:
    """Lock the allocations of all jobs to be evicted, by primary key: workers update allocations of many
    jobs in the same order.
    """
    givers = {d.job for bundle in bundles for d in bundle.decisions if d.kind in em.RELEASING_KINDS}
    if not givers:
        return
    of_givers = {"attempt__job__in": [jobs[key].pk for key in sorted(givers) if key in jobs]}
    present = Allocation.unscoped.filter(removed_at__isnull=True, **of_givers)
    list(present.select_for_update(of=("self",), no_key=True).order_by("pk").values_list("pk"))


def _write(batch: CommitBatch) -> None:
    clusters = evictions.remove_pods(batch)
    admission.write_admissions(batch)
    evictions.write_claims(batch)
    write_events(batch.events)
    write_decisions(batch.decisions)
    clusters |= {cluster for (cluster,) in _CLUSTERS.for_any(list(batch.nodes))}
    for cluster_id in sorted(clusters):
        outbox.add_hint(outbox.Topic.EXECUTE, cluster_id)
