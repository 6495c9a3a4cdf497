"""Which jobs stand on each node, kept from cycle to cycle and brought up to date where jobs changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from scheduling.engine.state.snapshot import Snapshot


class Occupants:
    """The jobs of a snapshot by the nodes on which their tasks stand."""

    def __init__(self) -> None:
        self._on: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._nodes: dict[str, tuple[str, ...]] = {}
        self._seen = -1

    def on(self, node: str) -> Iterable[str]:
        """The ids of the jobs of which something stands on a node, in no particular order."""
        return self._on.get(node, ())

    def follow(self, snapshot: Snapshot) -> None:
        """Bring everything up to date with what the snapshot shows."""
        changed: Iterable[str] | None = None
        if self._seen >= 0:
            changed = snapshot.changes.since(self._seen)
        self._seen = snapshot.changes.number
        if changed is None:
            self._on.clear()
            self._nodes.clear()
            changed = snapshot.jobs
        for job_id in changed:
            nodes = tuple(dict.fromkeys(task.node for task in snapshot.held(job_id)))
            before = self._nodes.get(job_id, ())
            if nodes != before:
                self._move(job_id, before, nodes)

    def _move(self, job_id: str, before: Iterable[str], nodes: tuple[str, ...]) -> None:
        for node in before:
            del self._on[node][job_id]
        for node in nodes:
            self._on[node][job_id] = None
        if nodes:
            self._nodes[job_id] = nodes
        else:
            del self._nodes[job_id]


def occupants_of(snapshot: Snapshot) -> Occupants:
    """Who stands where in a snapshot now."""
    known = snapshot.kept.get(Occupants)
    if not isinstance(known, Occupants):
        known = snapshot.kept[Occupants] = Occupants()
    known.follow(snapshot)
    return known
