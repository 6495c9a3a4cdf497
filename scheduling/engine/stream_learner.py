"""The learning of a placement stream from the requests that it has seen so far."""

from __future__ import annotations

from scheduling.engine.model import TaskWorkload, WorkloadShape
from scheduling.engine.placement_stream import PlacementStream

# The number of arrivals before the first learning; fewer describe the workload too poorly.
FIRST_LEARNING = 128
# Risks are computed again whenever one such part of all card cores was allocated since.
FLEET_PARTS = 32


class WorkloadLearner:
    """The learner of one stream, which counts its requests.

    Tables are learnt again whenever the number of requests has doubled; risks, which follow from free
    capacity, whenever a 32nd of all core units was allocated. The cost of both does not depend on the cluster
    size.
    """

    def __init__(self, stream: PlacementStream) -> None:
        self._stream = stream
        self._seen: list[WorkloadShape] = []
        self._due = FIRST_LEARNING
        self._known = TaskWorkload()
        self._part = max(int(stream.fleet.card_cores[stream.fleet.present].sum()) // FLEET_PARTS, 1)
        self._taken = 0

    def observe_request(self, shape: WorkloadShape) -> bool:
        """Count a request before its placement, and return whether `learn_workload` is due first."""
        self._seen.append(shape)
        return len(self._seen) == self._due or (self._taken >= self._part and bool(self._known.counts))

    def record_allocation(self, cores: int) -> None:
        """Count the core units of cards that were allocated to a request."""
        self._taken += cores

    def learn_workload(self) -> None:
        """Let the stream learn from the requests so far."""
        if len(self._seen) == self._due:
            self._due *= 2
            self._known = TaskWorkload.count_tasks(self._seen)
        self._taken = 0
        self._stream.learn_workload(self._known)
