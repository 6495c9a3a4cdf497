"""Why a job waits to which flavors of its queue are shut: by caps of its user, budgets, or its evictions.

A search leaves such flavors out, so what it says holds for the rest of them alone. What a job is told is
worked out over all flavors of its queue.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduling.engine.actions.admission.spare import short_of_spare
from scheduling.engine.model import HelpCode, Job, Queue, Reason
from scheduling.engine.quota.assignment import SEVERITY, Assignment, Mode, Refusal
from scheduling.engine.quota.verdict import for_each
from scheduling.engine.session.session import Session

# Beside the reasons of a search: what is not allowed is graver than what only has to be waited for.
_POLICY = 2.5


def shut_flavors(session: Session, queue: Queue, job: Job) -> Mapping[str, Refusal]:
    """The flavors that a job is not allowed, or in which it would leave too little unused, and why."""
    return {**short_of_spare(session, queue, job), **session.allowances.find_refused_flavors(queue, job)}


def all_shut(session: Session, queue: Queue, shut: Mapping[str, Refusal]) -> bool:
    """Whether no flavor of the queue is open."""
    return bool(shut) and len(shut) == sum(name in session.snapshot.flavors for name in queue.flavors)


def told_over_all(quota: Assignment, shut: Mapping[str, Refusal], rest: Refusal | None) -> Refusal | None:
    """The least grave of what keeps a job from all flavors.

    `quota` is what it would get if none were shut, `shut` why each of them is, `rest` what was said of the
    others. None where nothing is known.
    """
    found = [each for each in (_with_shut(quota, shut), rest) if each is not None]
    return min(found, key=_gravity, default=None)


def _with_shut(quota: Assignment, shut: Mapping[str, Refusal]) -> Refusal | None:
    """What a job lacks of the flavors that it would get, or why these are shut to it."""
    if quota.mode is Mode.FIT and quota.refusal is None:
        names = (name for role in quota.roles for name in role.flavors)
        return next((shut[name] for name in names if name in shut), None)
    lacks = quota.refusal
    if lacks is None or lacks.reason in (Reason.NEVER_FITS, Reason.EXCEEDS_MAX_QUOTA):
        return lacks
    where = str(lacks.known.get("flavor", ""))
    served = (name for role in quota.roles if role.refusal is None for name in role.flavors)
    denied = (shut[name] for name in (where, *served) if name in shut)
    forbidden = next((why for why in denied if why.reason is Reason.POLICY_DENIED), None)
    if forbidden is not None or where not in shut:
        return forbidden or lacks
    why = shut[where]
    if why.reason is lacks.reason and _takes_more(why, lacks):
        return why
    return _raised_enough(lacks, why)


def _takes_more(why: Refusal, lacks: Refusal) -> bool:
    """Whether at least as much of each quota has to come back for a rule as for what others hold of it: it
    would be told the rule as soon as they had given that back."""
    least = _amounts(why, HelpCode.WAIT_FOR_RELEASE)
    return all(
        amount <= least.get(name, 0) for name, amount in _amounts(lacks, HelpCode.WAIT_FOR_RELEASE).items()
    )


def _raised_enough(lacks: Refusal, why: Refusal) -> Refusal:
    """What a job lacks, where more quota of its queue is to be enough for a rule as well."""
    found, least = _amounts(lacks, HelpCode.RAISE_QUOTA), _amounts(why, HelpCode.RAISE_QUOTA)
    if not found or not least:
        return lacks
    shorts = {name: max(found.get(name, 0), least.get(name, 0)) for name in (*found, *least)}
    one = next(way for way in lacks.help if way.code is HelpCode.RAISE_QUOTA)
    rest = [way for way in lacks.help if way.code is not HelpCode.RAISE_QUOTA]
    return Refusal(lacks.reason, lacks.numbers, (*rest, *for_each(one, shorts)))


def _amounts(refusal: Refusal, code: HelpCode) -> dict[str, int]:
    """How much of each resource a refusal says would help, in one way."""
    ways = (way.numbers for way in refusal.help if way.code is code)
    return {str(numbers["resource"]): int(numbers["short"]) for numbers in ways}


def _gravity(refusal: Refusal) -> float:
    return _POLICY if refusal.reason is Reason.POLICY_DENIED else SEVERITY.get(refusal.reason, 0)
