"""Caches the snapshots of a few cells in each process; a snapshot is updated before each use.

The cached state is compared with values that are read each time: versions of jobs and nodes, the state of
allocations, and complete rows where there are few. So the cache depends neither on messages, which could be
lost, nor on the process that ran the cycles in between. After a contradiction everything is read again.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import structlog

from foundation.core import clock
from foundation.sql import row_scope
from foundation.sql.read_transaction import one_moment
from scheduling import engine
from scheduling.engine import model as em
from scheduling.engine_input.allowances import AllowanceReader
from scheduling.engine_input.job_history import places_of_moved
from scheduling.engine_input.volume_claims import ClaimReader
from scheduling.snapshots.cached_holds import CachedHolds
from scheduling.snapshots.cached_jobs import TRUSTED_FOR, CachedJobs
from scheduling.snapshots.cached_nodes import CachedNodes, unlike_rows
from scheduling.snapshots.cell_facts import CellFacts
from scheduling.snapshots.cell_reading import cell_snapshot
from scheduling.snapshots.cell_snapshot import CellSnapshot, Contradiction
from scheduling.snapshots.delegated import NOWHERE, DelegatedScope
from scheduling.snapshots.jobs import allowances_of, below_cap, most_cards

log = structlog.get_logger(__name__)

MOST_CELLS: Final = 4
"""The number of cells that a process caches, those that it used last."""
MOST_DOUBTS: Final = 3
_cells: Final[dict[uuid.UUID, CachedCell]] = {}
_lock: Final = threading.Lock()


class CachedCell:
    """The cached state of one cell."""

    def __init__(self, cell_id: uuid.UUID) -> None:
        self.cell_id = cell_id
        self._jobs, self._holds, self._nodes = CachedJobs(cell_id), CachedHolds(cell_id), CachedNodes(cell_id)
        self._snapshot: engine.Snapshot | None = None
        self._frame: CellFacts | None = None
        self._names: dict[str, str] = {}
        self._places: list[str] = []
        # How many consecutive cycles had a decision that no longer held at the commit.
        self.doubts = 0
        # Whether this snapshot was used for a cycle since its last update; another process may have run
        # others.
        self.ran_cycle = False
        # Nodes to be read again even if their versions are unchanged.
        self._again: set[uuid.UUID] = set()

    @property
    def is_trusted(self) -> bool:
        """True if all jobs were compared with their rows within `TRUSTED_FOR`."""
        at = self._jobs.compared_at
        return at is not None and timedelta(0) <= clock.now() - at < TRUSTED_FOR

    def note_decided(self, decided: Iterable[str]) -> None:
        """Record jobs about which decisions were made since the last update."""
        self._jobs.decided.update(decided)

    @row_scope.whole()
    def refresh_snapshot(self, *, briefly: bool = False) -> CellSnapshot:
        """Update the snapshot; after a contradiction this may be tried again.

        `briefly`: read only the jobs that have or had allocations, and those submitted lately.

        Raises: Contradiction; SnapshotError if everything has to be read again.
        """
        self._give_back_places()
        with one_moment():
            frame = CellFacts.read_cell(self.cell_id)
            self._follow_jobs(frame, briefly=briefly)
            nodes = self._follow_nodes(frame)
            limits = allowances_of(self.cell_id)
            mounted = ClaimReader(self.cell_id, self._jobs.list_mounting())
        known, old = self._snapshot, self._frame
        if known is None or old is None or not frame.is_same_shape(old):
            snapshot = self._snapshot = self._built(frame, nodes, limits, mounted)
        else:
            snapshot = known
            jobs = self._job_changes(snapshot, self._complete(frame, nodes, limits, mounted))
            snapshot.apply_delta(engine.Delta((*jobs, *frame.list_changes(snapshot))))
            frame.check_usage(snapshot)
        self._jobs.pending.clear()
        self._again.clear()
        self._frame = frame
        return self._taken(snapshot, frame)

    def _follow_jobs(self, frame: CellFacts, *, briefly: bool) -> None:
        """Update the cached jobs, and the allocations in the snapshot."""
        alone = self.ran_cycle and self._frame is not None and frame.cycle == self._frame.cycle + 1
        self.ran_cycle = False
        before = self._jobs.watched
        self._jobs.read_changes(frozenset(frame.claims), alone=alone, briefly=briefly)
        watched = self._jobs.watched
        out, new = self._holds.read_changes(watched, before ^ watched)
        self._again.update(pk for held in (*out, *new) for pk in self._nodes.nodes_to_reread(held))
        if self._snapshot is not None:
            # Removals come first, because an allocation may be replaced by one with the same id.
            removed = (engine.AllocationRemoved(held.id) for held in out)
            self._snapshot.apply_delta(engine.Delta((*removed, *map(engine.AllocationPut, new))))
            unlike = unlike_rows(self._snapshot, (*out, *new))
            self._snapshot.apply_delta(engine.Delta(tuple(map(engine.NodePut, unlike))))

    def _follow_nodes(self, frame: CellFacts) -> Sequence[em.Node]:
        """Update the cached nodes, also in the snapshot; return all nodes."""
        held = self._holds.known.values()
        nodes, ranks, removed = self._nodes.read_changes(frame.inventory_version, held, self._again)
        snapshot = self._snapshot
        if snapshot is None:
            return nodes
        fleet = snapshot.fleet
        moved = (replace(fleet.export_node(fleet.row[node]), rank=rank) for node, rank in ranks.items())
        puts = tuple(map(engine.NodePut, (*nodes, *moved)))
        snapshot.apply_delta(engine.Delta((*map(engine.NodeRemoved, removed), *puts)))
        return snapshot.fleet.nodes

    def _complete(
        self, frame: CellFacts, nodes: Sequence[em.Node], limits: AllowanceReader, mounted: ClaimReader
    ) -> list[em.Job]:
        def cap_jobs(jobs: list[em.Job]) -> list[em.Job]:
            return below_cap(jobs, frame.queues, frame.tree, most_cards(nodes, frame.flavors))

        return self._jobs.complete_jobs(limits, mounted, cap_jobs)

    def _job_changes(self, snapshot: engine.Snapshot, jobs: Sequence[em.Job]) -> list[engine.Change]:
        removed = (engine.JobRemoved(job_id) for job_id in snapshot.jobs if job_id not in self._jobs.plain)
        return [*removed, *(engine.JobPut(job) for job in jobs if snapshot.jobs.get(job.id) != job)]

    def _built(
        self, frame: CellFacts, nodes: Sequence[em.Node], limits: AllowanceReader, mounted: ClaimReader
    ) -> engine.Snapshot:
        """Return a new snapshot of the cached state: the first one, or one with other flavors, queues or
        limits."""
        held = self._holds.known.values()
        frame.check_charges(held)
        self._jobs.pending |= dict.fromkeys(self._jobs.plain)
        return engine.Snapshot(
            nodes=nodes if self._snapshot is None else self._snapshot.export_nodes(),
            flavors=frame.flavors,
            quota_nodes=frame.tree,
            queues=frame.queues,
            jobs=self._complete(frame, nodes, limits, mounted),
            allocations=held,
            claims=frame.claims.values(),
            usage=frame.usage.values(),
            lost_ppm=frame.lost_ppm,
            workload=frame.workload,
        )

    def _taken(self, snapshot: engine.Snapshot, frame: CellFacts) -> CellSnapshot:
        for place in list(places_of_moved(snapshot)):
            snapshot.add_allocation(place)
            self._places.append(place.id)
        names = self._nodes.names | frame.names
        if names != self._names:
            self._names = names
            self._jobs.reported.clear()  # the stored reasons contain the old names
        return CellSnapshot(
            snapshot, self._jobs.by_id, self._nodes.devices, names, self._jobs.reported, frame.sharing
        )

    def _give_back_places(self) -> None:
        while self._snapshot is not None and self._places:
            self._snapshot.remove_allocation(self._places.pop())


def is_trusted(cell_id: uuid.UUID) -> bool:
    """Return whether a partial comparison of a cached cell is enough for a brief cycle."""
    with _lock:
        cached = _cells.get(cell_id)
        return cached is not None and cached.is_trusted


def checkout_snapshot(
    cell_id: uuid.UUID, *, but: DelegatedScope = NOWHERE, briefly: bool = False
) -> tuple[CellSnapshot, CachedCell | None]:
    """Return a cell's current snapshot, and the cached cell for `checkin_snapshot` after the commit; None if
    it is not cached.

    Until `checkin_snapshot` no other caller gets the cached cell, and without it the cached cell is lost. A
    cell of which other engines decide a part is not cached, because reasons and allocations are written there
    without cycles. `briefly`: changes of older pending jobs need not be read; the commit checks the versions
    of jobs.
    """
    with _lock:
        cached = _cells.pop(cell_id, None)
    if but.clusters:
        return cell_snapshot(cell_id, but=but), None
    # Concurrent writes can make the cached state contradict what was read: then it is read once more.
    tries = [CachedCell(cell_id)] if cached is None else [CachedCell(cell_id), cached, cached]
    while tries:
        known = tries.pop()
        try:
            return known.refresh_snapshot(briefly=briefly), known
        except Contradiction as error:
            briefly = False
            log.info("snapshot read again", cell=str(cell_id), why=str(error))
        except engine.SnapshotError as error:
            log.warning("snapshot not kept", cell=str(cell_id), why=str(error))
            del tries[1:]  # the cached cell is unusable now
    return cell_snapshot(cell_id), None


def checkin_snapshot(
    known: CachedCell, result: em.CycleResult | None = None, *, dropped: bool = False
) -> None:
    """Put a cached cell back for the next cycle, and drop the least recently used one if there are too many.

    `result` is that of the cycle that ran with it, None if none ran. `dropped`: a decision no longer held at
    the commit. If that happens MOST_DOUBTS times in a row, the snapshot may be wrong and is dropped, so that
    the next cycle reads everything.
    """
    known.note_decided(made.job for made in (result.decisions if result else ()))
    known.ran_cycle = result is not None
    known.doubts = known.doubts + 1 if dropped else 0
    if known.doubts >= MOST_DOUBTS:
        return
    with _lock:
        _cells.pop(known.cell_id, None)
        _cells[known.cell_id] = known
        while len(_cells) > MOST_CELLS:
            del _cells[next(iter(_cells))]
