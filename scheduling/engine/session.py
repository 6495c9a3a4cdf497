"""What the actions of one cycle share: the snapshot, the tools, and what was decided so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator

from scheduling.engine.config import EngineConfig, resolve_config
from scheduling.engine.model import (
    Decision,
    Instant,
    Job,
    Outcome,
    Queue,
)
from scheduling.engine.order.orders import candidate_key, job_key
from scheduling.engine.placement.placer import Placer, placer_for
from scheduling.engine.plugins.protocols import Candidate
from scheduling.engine.plugins.registry import ConfigError
from scheduling.engine.state.lines import Line
from scheduling.engine.state.snapshot import Snapshot


class Session:
    """One cycle in progress. Actions read it, decide inside statements, and record here."""

    def __init__(self, snapshot: Snapshot, config: EngineConfig, now: Instant) -> None:
        self.snapshot = snapshot
        self.config = config
        self.now = now
        self.tools = resolve_config(config)
        self.decisions: list[Decision] = []
        self.outcomes: dict[str, Outcome] = {}
        self.counters: Counter[str] = Counter()
        self.lasting: dict[Hashable, Outcome | None] = {}
        self._cycle_key = candidate_key(self.tools.cycle_order)

    @property
    def placer(self) -> Placer:
        """Placement over the snapshot's fleet by the configured plug-ins."""
        return placer_for(self.snapshot.fleet, self.tools.rule)

    def queues(self) -> Iterator[Queue]:
        """All queues by id."""
        return (self.snapshot.queues[key] for key in sorted(self.snapshot.queues))

    def line(self, queue: Queue) -> Line:
        """The waiting jobs of a queue in its order.

        Raises:
            ConfigError: when the queue's ordering is not configured.
        """
        chain = self.tools.orderings.get(queue.ordering)
        if chain is None:
            raise ConfigError(
                f"queue {queue.id} has the ordering {queue.ordering!r}, which is not configured"
            )
        return self.snapshot.lines.line(queue.id, chain, job_key(chain))

    def in_order(self, candidates: list[Candidate]) -> list[Candidate]:
        """Heads of different queues in the order in which they are processed."""
        return sorted(candidates, key=self._cycle_key)

    def record(self, outcome: Outcome) -> None:
        """Note how a job leaves the cycle; a later action may replace it."""
        self.outcomes[outcome.job] = outcome

    def job(self, job_id: str) -> Job:
        """A job of the snapshot."""
        return self.snapshot.jobs[job_id]
