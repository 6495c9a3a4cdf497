"""Whether what a waiting job is told is true: its reason, and each number beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from scheduling.engine.model import Job, JobState, Outcome, Reason, StopPolicy, Strategy
from tests.truth.oracle.cell import Cell, least
from tests.truth.oracle.facts import Facts, Lack, Way
from tests.truth.oracle.places import Task, member, most, most_on, of_model, refuses, roomy_cards, task_of

TOLD: Mapping[Lack, Reason] = {
    Lack.ROOM: Reason.NO_ROOM,
    Lack.BORROWED: Reason.WAITING_FOR_BORROWED,
    Lack.QUOTA: Reason.WAITING_FOR_QUOTA,
    Lack.LIMIT: Reason.EXCEEDS_MAX_QUOTA,
    Lack.NODES: Reason.NEVER_FITS,
}
LACKS = {reason: lack for lack, reason in TOLD.items()}


@dataclass(frozen=True)
class Fault:
    """One false thing: in `part` (`reason`, or the name of a number) is `said`, and `true` would be right."""

    job: str
    reason: str
    part: str
    said: object
    true: object

    def __str__(self) -> str:
        return f"{self.job}: {self.reason}: {self.part} is {self.said!r}, true is {self.true!r}"


class Told:
    """What one job is told, beside what is so."""

    def __init__(self, cell: Cell, outcome: Outcome) -> None:
        assert outcome.reason is not None
        self.cell, self.outcome, self.reason = cell, outcome, outcome.reason
        self.job = cell.jobs[outcome.job]
        self.facts = Facts(cell, self.job)
        self.numbers = outcome.numbers

    def fault(self, part: str, said: object, true: object) -> Fault:
        """Something false."""
        return Fault(self.job.id, self.reason.value, part, said, true)

    def number(self, name: str, true: int | None) -> Iterator[Fault]:
        """A number, where it is given at all."""
        if name in self.numbers and self.numbers[name] != true:
            yield self.fault(name, self.numbers[name], true)


def judge(cell: Cell, outcome: Outcome) -> list[Fault]:
    """All that is false in what a waiting job is told.

    Raises: Undecided, where exhaustive search would take too long.
    """
    told = Told(cell, outcome)
    true = expected(told)
    if told.reason not in true:
        return [told.fault("reason", told.reason.value, " or ".join(sorted(true)))]
    return list(_NUMBERS.get(told.reason, _none)(told))


def expected(told: Told) -> set[Reason]:
    """The reasons that are true of a job; several only where what others do next decides between them."""
    cell, job, facts = told.cell, told.job, told.facts
    if facts.lack in (Lack.NODES, Lack.LIMIT):
        return {TOLD[facts.lack]}
    queue = facts.queue
    if queue.stop_policy is not StopPolicy.NONE:
        return {Reason.QUEUE_STOPPED}
    if job.state is JobState.SUSPENDED:
        return {Reason.SUSPENDED}
    resting = job.backoff_until is not None and job.backoff_until > cell.now
    if queue.strategy is Strategy.STRICT_FIFO and blockers(cell, job, resting=False):
        return {Reason.BEHIND_HEAD}
    if resting:
        return {Reason.BACKOFF}
    if facts.lack is Lack.NOTHING:
        return {Reason.RESERVED_FOR_LARGER}
    return {TOLD[facts.lack], *({Reason.PROTECTED} if guards(cell) else set())}


def rank(job: Job, ordering: str) -> tuple[float, ...] | tuple[float, float, str]:
    """The place of a job in its queue: by priority or run time, then by submission."""
    if ordering == "shortest":
        first = float("inf") if job.max_run_s is None else job.max_run_s
    else:
        first = -job.priority
    return (first, job.submitted_at, job.id)  # type: ignore[return-value]


def before(cell: Cell, job: Job) -> list[Job]:
    """The waiting jobs of the same queue that stand before a job."""
    ordering = cell.queues[job.queue].ordering
    mine = rank(job, ordering)
    return [j for j in cell.waiting() if j.queue == job.queue and rank(j, ordering) < mine]


def blockers(cell: Cell, job: Job, *, resting: bool) -> list[Job]:
    """Those of them that hold back a strict queue: who may be tried now and could start some day."""
    found = []
    for other in before(cell, job):
        pause = other.backoff_until is not None and other.backoff_until > cell.now
        if other.state is JobState.QUEUED and (resting or not pause):
            found.append(other)
    return found


def guards(cell: Cell) -> set[int]:
    """The instants at which guaranteed run times end that are not over."""
    found = set()
    for name in cell.holds:
        job = cell.jobs.get(name)
        if job is None or job.min_run_s is None or job.since is None:
            continue
        end = job.since + job.min_run_s
        if end > cell.now:
            found.add(-int(-end // 1))
    return found


# Numbers by reason


def _none(told: Told) -> Iterator[Fault]:
    yield from ()


def _never(told: Told) -> Iterator[Fault]:
    facts, numbers = told.facts, told.numbers
    role = next((role for role in told.job.roles if role.name == numbers.get("role")), None)
    if role is None:
        yield told.fault("role", numbers.get("role"), "a role of the job")
        return
    yield from told.number("asked", least(role))
    flavor = told.cell.flavors.get(str(numbers.get("flavor")))
    if flavor is None:
        if facts.queue.flavors:
            yield told.fault("flavor", numbers.get("flavor"), "a flavor of the queue")
        return
    task = task_of(told.job, role, flavor)
    tolerated = not any(name == "refused.flavor-taint" for name in numbers)
    room = most(task, facts.empty, 10_000) if tolerated else 0
    for name in ("available", "limit"):
        yield from told.number(name, room)
    yield from _cards(told, task, empty=True)
    if tolerated:
        yield from _refusals(told, task, empty=True)


def _cards(told: Told, task: Task, *, empty: bool) -> Iterator[Fault]:
    nodes = [n for n in (told.facts.empty if empty else told.cell.nodes) if member(n, task.flavor)]
    usable = sum(of_model(task, card) and card.healthy for node in nodes for card in node.devices)
    free = [roomy_cards(task, node) for node in nodes]
    yield from told.number("cards_per_task", task.cards)
    yield from told.number("cards", usable)
    yield from told.number("free_cards", sum(free))
    yield from told.number("most_free_on_one_node", max(free, default=0))


def _refusals(told: Told, task: Task, *, empty: bool) -> Iterator[Fault]:
    """Each node of the flavor is counted under the first rule that keeps the next task off it."""
    nodes = [n for n in (told.facts.empty if empty else told.cell.nodes) if member(n, task.flavor)]
    said = {n.removeprefix("refused."): v for n, v in told.numbers.items() if n.startswith("refused.")}
    true: dict[str, int] = {}
    for node in nodes:
        why = refuses(task, node)
        if not why and not most_on(task, node, 1):
            why = "full"
        if why:
            true[why] = true.get(why, 0) + 1
    lasting = {name: n for name, n in said.items() if name not in PASSING}
    passing = sum(int(n) for name, n in said.items() if name in PASSING)
    if passing:
        lasting["full"] = passing
    if lasting != true:
        yield told.fault("refused", lasting, true)


PASSING = frozenset({"pods", "cpu", "memory", "extended", "card-cores", "card-memory"})


def _beyond(told: Told) -> Iterator[Fault]:
    facts, numbers = told.facts, told.numbers
    key = (str(numbers.get("flavor")), str(numbers.get("resource")))
    ways = [w for w in facts.ways if w.lack is Lack.LIMIT and w.short.get(key) is Lack.LIMIT]
    if not ways:
        yield told.fault("flavor, resource", key, _shorts(facts.ways, Lack.LIMIT))
        return
    limit = facts.ceiling(key)
    # A job of several roles is told of the first that is too much, with what the roles before it ask for.
    asked = {way.asked[key] for way in ways} | _up_to_a_role(ways, key, limit)
    if numbers.get("asked") not in asked:
        yield told.fault("asked", numbers.get("asked"), sorted(asked))
    yield from told.number("limit", limit)
    yield from told.number("available", limit)
    for way in told.outcome.help:
        short = way.numbers.get("short")
        if short is not None and short not in {n - (limit or 0) for n in asked}:
            yield told.fault(f"{way.code.value} short", short, sorted(n - (limit or 0) for n in asked))
        if "limit" in way.numbers and way.numbers["limit"] != limit:
            yield told.fault(f"{way.code.value} limit", way.numbers["limit"], limit)


def _up_to_a_role(ways: Iterable[Way], key: tuple[str, str], limit: int | None) -> set[int]:
    found = set()
    for way in ways:
        asked = 0
        for task, count in zip(way.tasks, way.counts, strict=True):
            if task.flavor.id == key[0]:
                asked += task.charges().get(key[1], 0) * count
                if limit is not None and asked > limit:
                    found.add(asked)
    return found


def _shorts(ways: Iterable[Way], lack: Lack) -> list[object]:
    return sorted({key for way in ways for key, why in way.short.items() if why is lack})


def _quota(told: Told) -> Iterator[Fault]:
    facts, numbers = told.facts, told.numbers
    lack = LACKS.get(told.reason, facts.lack)
    key = (str(numbers.get("flavor")), str(numbers.get("resource")))
    ways = [w for w in facts.ways if w.lack is lack and (w.short.get(key) is lack or key in w.spare)]
    if not ways:
        true = _shorts((w for w in facts.ways if w.lack is lack), lack)
        yield told.fault("flavor, resource", key, true)
        return
    asked = {way.asked[key] for way in ways}
    if numbers.get("asked") not in asked:
        yield told.fault("asked", numbers.get("asked"), sorted(asked))
        return
    amount = int(numbers["asked"])
    can = facts.available(key)
    short = amount - can if can is not None else 0
    gap = max((way.spare.get(key, 0) for way in ways), default=0)
    if gap > max(0, short):
        short = gap
    said = numbers.get("available")
    if said not in {amount - short, max(0, amount - short)}:
        yield told.fault("available", said, amount - short)
    yield from told.number("used", facts.tree.usage(facts.leaf, key))
    yield from told.number("nominal", facts.tree.owned(facts.leaf, key))
    yield from told.number("limit", facts.ceiling(key))
    yield from told.number("short", short)
    for way in told.outcome.help:
        where = (way.numbers.get("flavor"), way.numbers.get("resource"))
        if "short" in way.numbers and where == key and way.numbers["short"] != short:
            yield told.fault(f"{way.code.value} short", way.numbers["short"], short)


def _room(told: Told) -> Iterator[Fault]:
    facts, numbers = told.facts, told.numbers
    role = next((role for role in told.job.roles if role.name == numbers.get("role")), None)
    flavor = told.cell.flavors.get(str(numbers.get("flavor")))
    ways = [way for way in facts.ways if way.lack is Lack.ROOM and flavor in way.flavors]
    if role is None or flavor is None or not ways:
        true = sorted({f.id for w in facts.ways if w.lack is Lack.ROOM for f in w.flavors})
        yield told.fault("flavor", numbers.get("flavor"), true)
        return
    for name in ("asked", "limit"):
        yield from told.number(name, least(role))
    task = task_of(told.job, role, flavor)
    room = most(task, told.cell.nodes, least(role))
    said = numbers.get("available")
    alone = len(told.job.roles) == 1
    if said is not None and not (int(said) == room if alone else int(said) <= room):
        yield told.fault("available", said, room)
    yield from _cards(told, task, empty=False)
    if alone and not room:
        yield from _refusals(told, task, empty=False)


def _protected(told: Told) -> Iterator[Fault]:
    ends = guards(told.cell)
    if told.numbers.get("until") not in ends:
        yield told.fault("until", told.numbers.get("until"), sorted(ends))
    yield from _room(told) if told.facts.lack is Lack.ROOM else _quota(told)


def _behind(told: Told) -> Iterator[Fault]:
    yield from _position(told)
    heads = [job.id for job in blockers(told.cell, told.job, resting=False)]
    if "head" in told.numbers and told.numbers["head"] not in heads:
        yield told.fault("head", told.numbers["head"], heads)


def _position(told: Told) -> Iterator[Fault]:
    if told.facts.queue.user_shares:
        return
    ahead = len(before(told.cell, told.job))
    yield from told.number("position", ahead + 1)
    yield from told.number("ahead", ahead)


def _backoff(told: Told) -> Iterator[Fault]:
    until = told.job.backoff_until
    yield from told.number("at", None if until is None else -int(-until // 1))


def _reserved(told: Told) -> Iterator[Fault]:
    at, name = told.numbers.get("at"), told.numbers.get("job")
    if at is not None and int(at) <= told.cell.now:
        yield told.fault("at", at, "an instant to come")
    if name is not None:
        other = told.cell.jobs.get(str(name))
        if other is None or other.queue != told.job.queue or other.state is not JobState.QUEUED:
            yield told.fault("job", name, "a job that waits in the same queue")


_NUMBERS: Mapping[Reason, Callable[[Told], Iterator[Fault]]] = {
    Reason.NEVER_FITS: _never,
    Reason.EXCEEDS_MAX_QUOTA: _beyond,
    Reason.QUEUE_STOPPED: _position,
    Reason.SUSPENDED: _position,
    Reason.BEHIND_HEAD: _behind,
    Reason.WAITING_FOR_QUOTA: _quota,
    Reason.WAITING_FOR_BORROWED: _quota,
    Reason.NO_ROOM: _room,
    Reason.PROTECTED: _protected,
    Reason.BACKOFF: _backoff,
    Reason.RESERVED_FOR_LARGER: _reserved,
}
