"""Checks the report for a pending job: its reason, and each number beside it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from scheduling.engine.model import (
    AllocationMode,
    HelpCode,
    Job,
    JobOutcome,
    JobState,
    Numbers,
    Reason,
    StopPolicy,
    Strategy,
)
from tests.truth.oracle.cell import Cell, least
from tests.truth.oracle.claims import by_claim, named_claims
from tests.truth.oracle.facts import Facts, Lack, Spare, Way
from tests.truth.oracle.places import (
    Task,
    member,
    most_on,
    of_model,
    refuses,
    roomy_cards,
    task_of,
    without_claims,
)
from tests.truth.oracle.told import Fault, Told, most_together

TOLD: Mapping[Lack, Reason] = {
    Lack.NOTHING: Reason.RESERVED_FOR_LARGER,
    Lack.ROOM: Reason.NO_ROOM,
    Lack.BORROWED: Reason.WAITING_FOR_BORROWED,
    Lack.QUOTA: Reason.WAITING_FOR_QUOTA,
    Lack.POLICY: Reason.POLICY_DENIED,
    Lack.LIMIT: Reason.EXCEEDS_MAX_QUOTA,
    Lack.NODES: Reason.NEVER_FITS,
}


def judge(cell: Cell, outcome: JobOutcome) -> list[Fault]:
    """Return all faults in the report for a pending job.

    Raises: Undecided, if exhaustive search would take too long.
    """
    told = Told(cell, outcome)
    true = {name for reason in expected(told) for name in by_claim(told, reason)}
    if told.reason not in true:
        return [told.fault("reason", told.reason.value, " or ".join(sorted(true)))]
    return list(_NUMBERS.get(told.reason, _none)(told))


def expected(told: Told) -> set[Reason]:
    """Return the true reasons of a job; several only if later decisions about others select one of them."""
    facts = told.facts
    if facts.lack in (Lack.NODES, Lack.LIMIT):
        return {TOLD[facts.lack]}
    if facts.lack is Lack.POLICY:
        # A job whose turn has not come need not be checked for what is not allowed in one flavor and too much
        # in all others.
        each = {way.lack for way in facts.ways} - {Lack.NODES}
        return {Reason.POLICY_DENIED, *(_without_turn(told) if each != {Lack.POLICY} else set())}
    return _without_turn(told) or _lacking(told)


def _without_turn(told: Told) -> set[Reason]:
    """Return why the turn of a job does not come; none if it does."""
    cell, job, queue = told.cell, told.job, told.facts.queue
    if queue.stop_policy is not StopPolicy.NONE:
        return {Reason.QUEUE_STOPPED}
    if job.state is JobState.SUSPENDED:
        return {Reason.SUSPENDED}
    resting = job.backoff_until is not None and job.backoff_until > cell.now
    if queue.strategy is Strategy.STRICT_FIFO and blockers(cell, job, resting=False):
        return {Reason.BEHIND_HEAD}
    return {Reason.BACKOFF} if resting else set()


def _lacking(told: Told) -> set[Reason]:
    """Return what a job lacks whose turn came."""
    cell, job, facts = told.cell, told.job, told.facts
    if facts.lack is Lack.NOTHING and len(job.roles) == 1:
        return {Reason.RESERVED_FOR_LARGER}
    found = {*(TOLD[lack] for lack in lacks(facts)), *({Reason.PROTECTED} if guards(cell, job) else set())}
    return found | ({Reason.RESERVED_FOR_LARGER} if _is_held_back(told) else set())


def _is_held_back(told: Told) -> bool:
    """Return whether a job that could preempt reports to wait behind a job of its queue that has waited so
    long that capacity is reserved for it."""
    other = told.cell.jobs.get(str(told.numbers.get("job")))
    if other is None or other.queue != told.job.queue or other.state is not JobState.QUEUED:
        return False
    waits = other.submitted_at if other.evicted_at is None else other.evicted_at
    since = waits + told.cell.rules.hold_after_s
    return since <= told.cell.now and told.numbers.get("since", int(since)) == int(since)


def lacks(facts: Facts) -> set[Lack]:
    """Return what a job lacks in the way that lacks least. Roles are placed in order and each takes the best
    for itself, so that the report for a job of several roles may be about another way."""
    either = {Lack.BORROWED, Lack.QUOTA}
    found = {facts.lack}
    if len(facts.job.roles) > 1:
        found |= {way.lack for way in facts.ways if Lack.NOTHING < way.lack < Lack.POLICY}
    return found | either if facts.beside and found & either else found


def rank(job: Job, ordering: str) -> tuple[float, ...] | tuple[float, float, str]:
    """Return the position of a job in its queue: by priority or run time, then by submission."""
    if ordering == "shortest":
        first = float("inf") if job.max_run_s is None else job.max_run_s
    else:
        first = -job.priority
    return (first, job.submitted_at, job.id)  # type: ignore[return-value]


def before(cell: Cell, job: Job) -> list[Job]:
    """Return the pending jobs of the same queue before a job; a best-effort queue puts those first that have
    preempted others."""
    queue = cell.queues[job.queue]

    def place(one: Job) -> tuple[object, ...]:
        awaited = queue.strategy is not Strategy.STRICT_FIFO and one.preempting
        return (not awaited, *rank(one, queue.ordering))

    return [j for j in cell.waiting() if j.queue == job.queue and place(j) < place(job)]


def blockers(cell: Cell, job: Job, *, resting: bool) -> list[Job]:
    """Return those of them that hold back a strict queue: jobs that may be tried now, and are not held up by
    a limit of their own."""
    found = []
    for other in before(cell, job):
        pause = other.backoff_until is not None and other.backoff_until > cell.now
        tried = other.state is JobState.QUEUED and (resting or not pause)
        if tried and Facts(cell, other).lack is not Lack.POLICY:
            found.append(other)
    return found


def guards(cell: Cell, job: Job) -> set[int]:
    """Return the future instants at which guaranteed run times end for a job: as a whole, or for borrowed
    use. For a job inside its queue's own quota they all end soon after it was submitted."""
    grace = cell.rules.grace_s
    found = set()
    for name in cell.holds:
        other = cell.jobs.get(name)
        if other is not None and other.min_run_s is not None and other.attempt_started_at is not None:
            found |= {
                other.attempt_started_at + other.min_run_s,
                other.attempt_started_at + min(other.min_run_s, grace),
            }
    if found:
        found.add(job.submitted_at + grace)
    return {-int(-end // 1) for end in found if end > cell.now}


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
    # A job that no node holds in any case is reported by nodes, whatever it mounts.
    task = task_of(without_claims(told.job), role, flavor)
    tolerated = not any(name == "refused.flavor-taint" for name in numbers)
    room = most_together(told, task, facts.empty, 10_000) if tolerated else 0
    for name in ("available", "limit", "together"):
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
    """Yield a fault unless each node of the flavor is counted under the first rule that excludes it."""
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
    key = _key(numbers)
    ways = [w for w in facts.ways if w.lack is Lack.LIMIT and w.short.get(key) is Lack.LIMIT]
    if not ways:
        yield told.fault("flavor, resource", key, _shorts(facts.ways, Lack.LIMIT))
        return
    limit = facts.ceiling(key)
    # The report for a job of several roles is about the first that is too much, with those before it.
    asked = {way.asked[key] for way in ways} | _up_to_a_role(ways, key, limit)
    if numbers.get("asked") not in asked:
        yield told.fault("asked", numbers.get("asked"), sorted(asked))
    yield from told.number("limit", limit)
    yield from told.number("available", limit)
    yield from _capped(told)
    yield from _beyond_offers(told, [way for way in facts.ways if way.lack is Lack.LIMIT])


def _left_for_a_role(told: Told, name: str, key: tuple[str, str]) -> set[int]:
    """Return what one role may have of a limit while the others keep their requests."""
    limit = told.facts.ceiling(key)
    if limit is None:
        return set()
    others = replace(told.job, roles=tuple(role for role in told.job.roles if role.name != name))
    return {limit - way.asked.get(key, 0) for way in Facts(told.cell, others).ways}


def _beyond_offers(told: Told, ways: list[Way]) -> Iterator[Fault]:
    for offer in told.outcome.help:
        key = _key(offer.numbers)
        limit = told.facts.ceiling(key)
        if "each" in offer.numbers and len(told.job.roles) > 1:
            left = _left_for_a_role(told, str(offer.numbers["role"]), key)
            if offer.numbers["limit"] not in left:
                yield told.fault(f"{offer.code.value} limit", offer.numbers["limit"], sorted(left))
        elif "limit" in offer.numbers and offer.numbers["limit"] != limit:
            yield told.fault(f"{offer.code.value} limit", offer.numbers["limit"], limit)
        if "short" in offer.numbers and limit is not None:
            asked = {way.asked[key] for way in ways} | _up_to_a_role(ways, key, limit)
            true = sorted(amount - limit for amount in asked if amount > limit)
            if offer.numbers["short"] not in true:
                yield told.fault(f"{offer.code.value} short", offer.numbers["short"], true)


def _key(numbers: Numbers) -> tuple[str, str]:
    return str(numbers.get("flavor")), str(numbers.get("resource"))


def _capped(told: Told) -> Iterator[Fault]:
    """Yield a fault unless a number says that the job does not borrow because it was evicted so often."""
    facts, job = told.facts, told.job
    dynamic = facts.queue.allocation_mode is AllocationMode.DYNAMIC
    true = job.evictions if facts.capped and job.preemptible and dynamic else None
    yield from told.number("capped", true)


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
    lacking = lacks(facts)
    key = _key(numbers)
    ways = [w for w in facts.ways if w.lack in lacking and (w.short.get(key) in lacking or key in w.spare)]
    if not ways:
        true = _shorts((w for w in facts.ways if w.lack in lacking), facts.lack)
        yield told.fault("flavor, resource", key, true)
        return
    asked = {way.asked[key] for way in ways}
    if numbers.get("asked") not in asked:
        yield told.fault("asked", numbers.get("asked"), sorted(asked))
        return
    ways = [way for way in ways if way.asked[key] == numbers["asked"]]
    spare = next((way.spare[key] for way in ways if key in way.spare), None)
    short = _missing(facts, ways[0], key) or 0
    if spare is not None and (numbers.get("rule") or not short):
        yield from _spared(told, spare)
    else:
        yield from _own_and_borrowed(told, key, int(numbers["asked"]), short)
    yield from _offered(told, ways)
    yield from _raised_together(told, ways)
    yield from _capped(told)


def _spared(told: Told, spare: Spare) -> Iterator[Fault]:
    """Yield faults for a borrowing job beside which something must stay unused."""
    rule = "drained" if told.job.drained else "spare" if told.job.evictions else "headroom"
    if told.numbers.get("rule", rule) != rule:
        yield told.fault("rule", told.numbers["rule"], rule)
    yield from told.number("keep_free", spare.keep)
    yield from told.number("unused", max(0, spare.unused))
    yield from told.number("evictions", told.job.evictions or None)
    yield from told.number("available", max(0, spare.unused - spare.keep))


def _offered(told: Told, ways: Iterable[Way]) -> Iterator[Fault]:
    """Yield faults in the missing amount of each recommendation other than more quota."""
    known = list(ways)
    for offer in told.outcome.help:
        said = offer.numbers.get("short")
        if said is None or offer.code is HelpCode.RAISE_QUOTA:
            continue
        true = [_enough(told.facts, way, _key(offer.numbers)) for way in known]
        if not any(said in amounts for amounts in true):
            yield told.fault(f"{offer.code.value} short", said, true)


def _raised_together(told: Told, ways: Iterable[Way]) -> Iterator[Fault]:
    """Yield a fault unless the recommended quota avoids borrowing, for all resources of a way if a rule
    forbids to borrow; without a rule the missing amount suffices."""
    offers = (offer.numbers for offer in told.outcome.help if offer.code is HelpCode.RAISE_QUOTA)
    said = {_key(numbers): int(numbers["short"]) for numbers in offers}
    true = []
    for way in ways:
        missing = {key: _missing(told.facts, way, key) or 0 for key in way.asked}
        borrowed = {key: told.facts.borrowed(key, way.asked[key]) for key in way.asked}
        whole = {key: most for key in way.asked if (most := max(missing[key], borrowed[key])) > 0}
        true.append(whole)
        if not told.numbers.get("rule") and all(
            short in (missing.get(key), whole.get(key)) for key, short in said.items()
        ):
            return
    if said and said not in true:
        yield told.fault("RAISE_QUOTA together", said, true)


def _own_and_borrowed(told: Told, key: tuple[str, str], amount: int, short: int) -> Iterator[Fault]:
    facts, said = told.facts, told.numbers.get("available")
    if said not in {amount - short, max(0, amount - short)}:
        yield told.fault("available", said, amount - short)
    owned, had = facts.tree.owned(facts.leaf, key), max(0, amount - short)
    own = had if owned is None else min(had, max(0, owned - facts.against(key)))
    yield from told.number("own_free", own)
    yield from told.number("borrowable", had - own)
    yield from told.number("used", facts.tree.usage(facts.leaf, key))
    yield from told.number("counted", facts.against(key))
    yield from told.number("nominal", owned)
    yield from told.number("limit", facts.ceiling(key))
    yield from told.number("short", short)


def _missing(facts: Facts, way: Way, key: tuple[str, str]) -> int | None:
    """Return what is missing of one quota of a way; None if nothing is."""
    asked, can = way.asked[key], facts.available(key)
    return None if can is None or can >= asked else asked - can


def _denied(told: Told) -> Iterator[Fault]:
    facts, numbers = told.facts, told.numbers
    ways = [way for way in facts.ways if way.lack is Lack.POLICY]
    if "budget_of" in numbers:
        spent = {item.flavor: item for item in told.job.barred}
        item = spent.get(str(numbers.get("flavor")))
        if item is None:
            yield told.fault("flavor", numbers.get("flavor"), sorted(spent))
            return
        yield from told.number("used_hours", item.used_hours)
        yield from told.number("budget_hours", item.budget_hours)
        return
    asked = {facts.of(way.asked, str(numbers.get("resource"))) for way in ways}
    if numbers.get("asked") not in asked:
        yield told.fault("asked", numbers.get("asked"), sorted(asked))
    caps = {(cap.resource, cap.held, cap.limit) for cap in told.job.allowances}
    said = (numbers.get("resource"), numbers.get("held"), numbers.get("user_limit"))
    if said not in caps:
        yield told.fault("resource, held, user_limit", said, sorted(caps))


def _enough(facts: Facts, way: Way, key: tuple[str, str]) -> Container[int]:
    """Return the amounts of one quota that may be reported as missing: the missing amount, and what must
    stay unused beside an evicted job. Empty if nothing lacks."""
    missing, spare = _missing(facts, way, key), way.spare.get(key)
    if spare is None:
        return () if missing is None else (missing,)
    least, most = (max(missing or 0, amount) for amount in (spare.enough.start, spare.enough.stop - 1))
    rest = range(least, most + 1)
    # If its own queue must release something, the rest is reported once nothing else is missing.
    return rest if way.lack is Lack.BORROWED or missing is None else _Either(missing, rest)


@dataclass(frozen=True)
class _Either:
    """One amount, or one of a range."""

    one: int
    rest: range

    def __contains__(self, amount: object) -> bool:
        return amount == self.one or amount in self.rest


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
    room = most_together(told, task, told.cell.nodes, least(role))
    said = numbers.get("available")
    alone = len(told.job.roles) == 1
    if said is not None and not (int(said) == room if alone else int(said) <= room):
        yield told.fault("available", said, room)
    yield from _cards(told, task, empty=False)
    if alone and not room and told.job.topology is None:
        yield from _refusals(told, task, empty=False)


def _protected(told: Told) -> Iterator[Fault]:
    ends = guards(told.cell, told.job)
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
    Reason.POLICY_DENIED: _denied,
    Reason.QUEUE_STOPPED: _position,
    Reason.SUSPENDED: _position,
    Reason.BEHIND_HEAD: _behind,
    Reason.WAITING_FOR_QUOTA: _quota,
    Reason.WAITING_FOR_BORROWED: _quota,
    Reason.NO_ROOM: _room,
    Reason.PROTECTED: _protected,
    Reason.BACKOFF: _backoff,
    Reason.RESERVED_FOR_LARGER: _reserved,
    Reason.VOLUME_NODE_CONFLICT: named_claims,
    Reason.VOLUME_NODES_TOO_SMALL: named_claims,
    Reason.VOLUME_CLAIM_NOT_BOUND: named_claims,
    Reason.VOLUME_CLAIM_UNREAD: named_claims,
}
