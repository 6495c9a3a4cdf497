"""This module records which movable jobs run on each node, and follows changes of jobs between cycles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from scheduling.engine.gang.moves import MovablePart, movable_parts
from scheduling.engine.model import Job, JobState
from scheduling.engine.state.memo import read_memo
from scheduling.engine.state.snapshot import Snapshot


class SoleOccupancy(NamedTuple):
    """The parts of jobs whose tasks all run on one node, and the cards and core units that they hold."""

    parts: tuple[tuple[Job, MovablePart], ...]
    cards: int
    cores: int


class NodeOccupancy:
    """The jobs of a snapshot by the nodes of their tasks, with the parts in which they move.

    Jobs that are never moved have no parts; their run time is not considered here.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._jobs_by_node: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._nodes: dict[str, tuple[str, ...]] = {}
        self._parts: dict[str, tuple[MovablePart, ...]] = {}
        self._sole: dict[str, SoleOccupancy] = {}
        self._seen = -1

    def jobs_on(self, node: str) -> Iterable[str]:
        """Return the ids of the jobs with tasks on a node, in no particular order."""
        return self._jobs_by_node.get(node, ())

    def parts_of_job(self, job_id: str) -> tuple[MovablePart, ...]:
        """Return the parts in which a job could be moved."""
        known = self._parts.get(job_id)
        if known is None:
            job = self._snapshot.jobs.get(job_id)
            movable = job is not None and job.state is JobState.LIVE and job.preemptible and job.movable
            known = ()
            if job is not None and movable:
                running = [task for task in self._snapshot.allocations_of(job_id) if not task.leaving]
                known = tuple(movable_parts(job, running))
            self._parts[job_id] = known
        return known

    def sole_occupancy(self, node: str) -> SoleOccupancy:
        """Return the parts that run on a node and nowhere else."""
        known = self._sole.get(node)
        if known is None:
            jobs = self._snapshot.jobs
            here = [
                (name, part)
                for name in self.jobs_on(node)
                for part in self.parts_of_job(name)
                if part.node == node
            ]
            known = self._sole[node] = SoleOccupancy(
                tuple((jobs[name], part) for name, part in here),
                sum(part.cards for _, part in here),
                sum(part.cores for _, part in here),
            )
        return known

    def follow_changes(self) -> None:
        """Update everything to what the snapshot shows."""
        snapshot = self._snapshot
        changed: Iterable[str] | None = (
            None if self._seen < 0 else snapshot.job_changes.jobs_since(self._seen)
        )
        self._seen = snapshot.job_changes.number
        if changed is None:
            for known in (self._jobs_by_node, self._nodes, self._parts, self._sole):
                known.clear()
            changed = snapshot.jobs
        for job_id in changed:
            self._parts.pop(job_id, None)
            before = self._nodes.pop(job_id, ())
            nodes = tuple(dict.fromkeys(task.node for task in snapshot.allocations_of(job_id)))
            for node in before:
                self._sole.pop(node, None)
                del self._jobs_by_node[node][job_id]
            for node in nodes:
                self._sole.pop(node, None)
                self._jobs_by_node[node][job_id] = None
            if nodes:
                self._nodes[job_id] = nodes


def node_occupancy_of(snapshot: Snapshot) -> NodeOccupancy:
    """Return the present occupancy of a snapshot."""
    known = read_memo(snapshot.job_caches, NodeOccupancy, lambda: NodeOccupancy(snapshot))
    known.follow_changes()
    return known
