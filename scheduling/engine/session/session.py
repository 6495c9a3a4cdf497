"""What the actions of one cycle share: the snapshot, the tools, and what was decided so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from scheduling.engine.model import (
    Considered,
    Decision,
    FlavorResource,
    Instant,
    Job,
    Outcome,
    Queue,
    Reason,
    Strategy,
)
from scheduling.engine.model.registry import ConfigError
from scheduling.engine.order.orders import Preempting, candidate_key, job_key
from scheduling.engine.order.protocols import Candidate, Order
from scheduling.engine.order.users import Users
from scheduling.engine.placement.feasibility import Dead
from scheduling.engine.placement.index.workload import Census, Workload
from scheduling.engine.placement.placer import Placer, placer_for
from scheduling.engine.preemption.search import VictimSearch
from scheduling.engine.session.allowances import Allowances
from scheduling.engine.session.config import EngineConfig
from scheduling.engine.session.consolidation_gain import Gain
from scheduling.engine.session.equivalence import likes_of, refusals_of
from scheduling.engine.session.plugin_sets import Toolbox
from scheduling.engine.session.queue_ranks import QueueRanks, ranks_of
from scheduling.engine.state.lines import JobKey, Line
from scheduling.engine.state.snapshot import Snapshot

STICKY: Order = Preempting()
T = TypeVar("T")
Usage = Mapping[FlavorResource, int]

Table = dict[tuple[Hashable, ...], T]


class Session:
    """One cycle in progress. Actions read it, decide inside statements, and record here."""

    def __init__(self, snapshot: Snapshot, config: EngineConfig, tools: Toolbox, now: Instant) -> None:
        self.snapshot = snapshot
        self.config = config
        self.now = now
        self.tools = tools
        self.decisions: list[Decision] = []
        self.outcomes: dict[str, Outcome] = {}
        # Those of them that lack nothing but room.
        self.roomless: set[str] = set()
        self.counters: Counter[str] = Counter()
        self.considered: list[Considered] = []
        self.likes = likes_of(snapshot)
        self.refusals = refusals_of(snapshot)
        self._ranks = ranks_of(snapshot, self.likes)
        # By what a job asks for and where: that it never fits, the flavors in which it does not, that it is
        # beyond limits, what it is charged in its first choice, and its smallest size in each flavor.
        self.never: Table[Outcome | None] = _table(snapshot.memo, "never", self.likes, self.tools.rule)
        self.dead: Table[Dead] = _table(snapshot.memo, "dead", self.likes, self.tools.rule)
        self.beyond: Table[Outcome | None] = _table(snapshot.memo, "beyond", self.likes, self.tools.rule)
        self.first_choice: Table[Usage] = _table(snapshot.limits_memo, "first choice", self.likes)
        self.least: Table[list[tuple[str, Usage]]] = _table(snapshot.limits_memo, "least", self.likes)
        self.users = Users(snapshot, config.user_shares, now)
        self.allowances = Allowances(snapshot, now)
        self._cycle_key = candidate_key(self.tools.cycle_order)
        self._taught = _placer(snapshot, self.tools)
        self._victims: VictimSearch | None = None
        # The job for which the admission ended, and the moves that are to open room for it.
        self.moves: tuple[Queue, Job, Gain] | None = None

    def queues(self) -> Iterator[Queue]:
        """All queues by id."""
        return (self.snapshot.queues[key] for key in sorted(self.snapshot.queues))

    @property
    def placer(self) -> Placer:
        """Placement over what the snapshot shows at the moment."""
        fleet = self.snapshot.fleet
        if fleet is self._taught.fleet:
            return self._taught
        other = placer_for(fleet, self.tools.rule)
        other.learn_like(self._taught)
        return other

    @property
    def victims(self) -> VictimSearch:
        """The search for victims by the configured rules; candidates are sorted once a cycle."""
        if self._victims is None:
            self._victims = VictimSearch(
                self.snapshot,
                options=self.config.preemption,
                now=self.now,
                fair=self.config.fair_sharing,
                user_load=None if self.config.user_shares is None else self.users.load,
            )
        return self._victims

    def line(self, queue: Queue) -> Line:
        """The waiting jobs of a queue in its order.

        Raises:
            ConfigError: when the queue's ordering is not configured.
        """
        chain = self._chain(queue)
        return self.snapshot.lines.line(queue.id, chain, job_key(chain))

    def job_key(self, queue: Queue) -> JobKey:
        """How a queue ranks its jobs, as a key; a promise that a job has does not raise its rank.

        Raises:
            ConfigError: when the queue's ordering is not configured.
        """
        return job_key(self._criteria(queue))

    def ranks(self, queue: Queue) -> QueueRanks:
        """The waiting jobs of a queue by what they are like, each rank in the queue's order.

        Raises:
            ConfigError: when the queue's ordering is not configured.
        """
        if len(self.line(queue)):
            self.users.count(queue)  # what is used before anything of this queue is decided
        chain = self._chain(queue)
        return self._ranks.of(queue.id, chain, job_key(chain))

    def _chain(self, queue: Queue) -> tuple[Order, ...]:
        chain = self._criteria(queue)
        # Where a line is not strict, nobody is to overtake a job for which others are leaving.
        return chain if queue.strategy is Strategy.STRICT_FIFO else (STICKY, *chain)

    def _criteria(self, queue: Queue) -> tuple[Order, ...]:
        chain = self.tools.orderings.get(queue.ordering)
        if chain is None:
            raise ConfigError(
                f"queue {queue.id} has the ordering {queue.ordering!r}, which is not configured"
            )
        return chain

    def in_order(self, candidates: list[Candidate]) -> list[Candidate]:
        """Heads of different queues in the order in which they are processed."""
        return sorted(candidates, key=self._cycle_key)

    def record(self, outcome: Outcome) -> None:
        """Note how a job leaves the cycle; a later action may replace it."""
        self.outcomes[outcome.job] = outcome
        if outcome.reason is Reason.NO_ROOM:
            self.roomless.add(outcome.job)
        else:
            self.roomless.discard(outcome.job)

    def record_alike(self, answers: Mapping[str, Outcome]) -> None:
        """Note what jobs are told that were not told anything before, and all the same."""
        self.outcomes.update(answers)
        if any(outcome.reason is Reason.NO_ROOM for outcome in islice(answers.values(), 1)):
            self.roomless.update(answers)

    def job(self, job_id: str) -> Job:
        """A job of the snapshot."""
        return self.snapshot.jobs[job_id]


def _placer(snapshot: Snapshot, tools: Toolbox) -> Placer:
    """Placement over the snapshot's fleet by the configured plug-ins.

    Policies that learn do so here, from the jobs and the fleet as they are before anything is decided:
    what earlier cycles learnt, or when a policy is first asked, makes no difference.
    """
    placer = placer_for(snapshot.fleet, tools.rule)
    asked = {flavor.policy for flavor in snapshot.flavors.values()}
    learning = [name for name in tools.rule.learning if name in asked]
    if learning:
        placer.learn(_usual(snapshot), learning)
    return placer


def _usual(snapshot: Snapshot) -> Workload:
    """What work is usual now, so coarse that most cycles find it as it was."""
    cores = int(snapshot.fleet.card_cores.max(initial=1))
    census = snapshot.job_memo.get(Census)
    if not isinstance(census, Census) or census.card_cores != cores:
        census = snapshot.job_memo[Census] = Census(cores)
    return census.follow(snapshot.jobs, snapshot.changes).coarse()


def _table(memo: dict[Hashable, object], *name: Hashable) -> Table[Any]:
    """What is kept under a name from cycle to cycle, as long as the memo holds."""
    found = memo.setdefault(name, {})
    assert isinstance(found, dict)  # noqa: S101 - nobody else keeps anything under such a name
    return found
