"""Engine decisions in, rows out, in one transaction.

The engine decided on a snapshot; the world may have moved. So under the cell's lock the epoch is
checked, the tree arithmetic is run again on the ledger of this moment, each job must still be as it
was read, and nodes and cards are taken by guarded updates. A decision that no longer holds is
dropped with everything that belongs to it; the next cycle looks at its jobs again.

Rows are locked in the order that every change of a job keeps: the cell, jobs, allocations, the ledger,
nodes, cards, and last of all the hints.
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
        # Much of a job is for its pods alone, and takes long to read.
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
    # Changes of slices have transactions of their own.
    others = [made for made in result.decisions if made.kind is not em.DecisionKind.RESIZE]
    commit, bundles, done = _Commit(cell_id, epoch, taken, now), bundles_of(others), Committed()
    try:
        if bundles:
            done.add_batch(commit.write_together(bundles))
    except (NoLongerFree, IntegrityError):
        # Something was taken or has failed since the snapshot, or cannot be written at all. One by one,
        # so that only what no longer holds is lost and not its whole cycle.
        for bundle in bundles:
            commit.write_alone(bundle, done)
    done.reasons_changed = commit_reasons(cell_id, epoch, taken, result.outcomes, now)
    return done


@dataclass(frozen=True, slots=True)
class _Commit:
    """One cycle's result on its way into rows."""

    cell_id: uuid.UUID
    epoch: int
    taken: CellSnapshot
    now: datetime

    def write_alone(self, bundle: Bundle, done: Committed) -> None:
        """Write one bundle; if it cannot be, it is dropped."""
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
        """Write all of them in one transaction, but those that no longer hold.

        Raises: LeaseLost; NoLongerFree, IntegrityError when nothing of it is written.
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
        """Do it if everything it needs still holds; returns whether it did."""
        first = bundle.decisions[0]
        if first.kind is em.DecisionKind.ADMIT:
            return admission.admit_job(batch, first, tasks)
        if first.kind is em.DecisionKind.GROW:
            return admission.grow_job(batch, first)
        known = (*evictions.GIVING, em.DecisionKind.PARK)
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
    """Lock the allocations of all jobs that are to be evicted, in one order: workers note what they did
    with pods of many jobs.
    """
    givers = {d.job for bundle in bundles for d in bundle.decisions if d.kind in evictions.GIVING}
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
