"""When a stream learns: what is usual is taken from the requests that it has seen so far."""

from __future__ import annotations

from scheduling.engine.placement.index.workload import TaskWorkload, WorkloadShape
from scheduling.engine.placement_stream import PlacementStream

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
        self._seen: list[WorkloadShape] = []
        self._due = FIRST
        self._known = TaskWorkload()
        self._part = max(int(stream.fleet.card_cores[stream.fleet.present].sum()) // PARTS, 1)
        self._taken = 0

    def saw(self, shape: WorkloadShape) -> bool:
        """A request came. Call it before the request is placed; whether it is time to learn first."""
        self._seen.append(shape)
        return len(self._seen) == self._due or (self._taken >= self._part and bool(self._known.counts))

    def took(self, cores: int) -> None:
        """The request found a place, and so many core units of cards are taken."""
        self._taken += cores

    def learn(self) -> None:
        """Learn, when it is time."""
        if len(self._seen) == self._due:
            self._due *= 2
            self._known = TaskWorkload.count_tasks(self._seen)
        self._taken = 0
        self._stream.learn(self._known)
