"""When a stream learns: what is usual is taken from the requests that it has seen so far."""

from __future__ import annotations

from collections import Counter

from scheduling.engine.placement.stream import PlacementStream
from scheduling.engine.placement.workload import Workload, WorkloadShape

# Before so many arrivals little is known, and policies that learn are left alone.
FIRST = 128
# Risks are looked at again whenever this part of all cards was taken since.
PARTS = 32


class Learner:
    """Counts the requests of a stream, and lets it learn from them.

    Tables are learnt anew whenever the number of requests has doubled; risks, which come from what is
    free, whenever a 32nd of all core units was taken. Both cost the same at any size of the cluster.
    """

    def __init__(self, stream: PlacementStream) -> None:
        self._stream = stream
        self._counts: Counter[WorkloadShape] = Counter()
        self._seen, self._due = 0, FIRST
        self._known = Workload()
        self._part = max(int(stream.fleet.card_cores[stream.fleet.present].sum()) // PARTS, 1)
        self._taken = 0

    def saw(self, shape: WorkloadShape) -> None:
        """A request came. Call it before the request is placed."""
        self._counts[shape] += 1
        self._seen += 1
        if self._seen == self._due:
            self._due *= 2
            self._learn(Workload.counted(self._counts))
        elif self._taken >= self._part and self._known.counts:
            self._learn(self._known)

    def took(self, shape: WorkloadShape) -> None:
        """The request found a place."""
        self._taken += shape.cards * shape.cores

    def _learn(self, workload: Workload) -> None:
        self._known, self._taken = workload, 0
        self._stream.learn(workload)
