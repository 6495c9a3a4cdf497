"""This module states why a job is excluded from flavors of its queue: by caps of its user, by budgets, or
after evictions.

An evaluation leaves such flavors out, so its refusal is about the other flavors alone. The refusal of the job
is computed over all flavors of its queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from scheduling.engine.actions.admission.readmission_headroom import find_flavors_without_headroom
from scheduling.engine.model import HelpCode, Job, Numbers, Queue, Reason
from scheduling.engine.quota.assignment import SEVERITY, Assignment, AssignmentMode, Refusal
from scheduling.engine.quota.shortage import expand_help
from scheduling.engine.session.session import Session

# The severity of a policy's refusal: worse than any shortage that ends by itself.
_POLICY = 2.5


def find_excluded_flavors(session: Session, queue: Queue, job: Job) -> Mapping[str, Refusal]:
    """Return the flavors that a job is not allowed to use, or in which it would leave too little headroom,
    each with the refusal."""
    return {
        **find_flavors_without_headroom(session, queue, job),
        **session.allowances.find_refused_flavors(queue, job),
    }


def are_all_excluded(session: Session, queue: Queue, excluded: Mapping[str, Refusal]) -> bool:
    """Return whether no flavor of the queue is left."""
    return bool(excluded) and len(excluded) == sum(name in session.snapshot.flavors for name in queue.flavors)


def least_severe_refusal(
    assign_without: Callable[[Set[str]], Assignment], excluded: Mapping[str, Refusal], rest: Refusal | None
) -> Refusal | None:
    """Return the least severe of the refusals of all flavors.

    `assign_without` gives the assignment if only the given flavors were excluded, `excluded` why each of them
    is, `rest` the refusal of the others. The result is None if nothing is known.
    """
    found = [_refusal_of_assigned(assign_without(frozenset()), excluded), rest]
    denied = {name for name, why in excluded.items() if why.reason is Reason.POLICY_DENIED}
    if found[0] is not None and found[0].reason is Reason.POLICY_DENIED and denied < excluded.keys():
        # The flavors that it would get are not allowed; of the others it may lack less.
        rules = {name: why for name, why in excluded.items() if name not in denied}
        found.append(_refusal_of_assigned(assign_without(denied), rules))
    return min((each for each in found if each is not None), key=_severity, default=None)


def _refusal_of_assigned(quota: Assignment, excluded: Mapping[str, Refusal]) -> Refusal | None:
    """Return what a job lacks of the flavors that it would get, or why it is excluded from these."""
    if quota.mode is AssignmentMode.FIT and quota.refusal is None:
        names = (name for role in quota.roles for name in role.flavors)
        return next((excluded[name] for name in names if name in excluded), None)
    shortage = quota.refusal
    if shortage is None or shortage.reason in (Reason.NEVER_FITS, Reason.EXCEEDS_MAX_QUOTA):
        return shortage
    flavor_name = str(shortage.known_numbers.get("flavor", ""))
    served = (name for role in quota.roles if role.refusal is None for name in role.flavors)
    denied = (excluded[name] for name in (flavor_name, *served) if name in excluded)
    forbidden = next(
        (rule_refusal for rule_refusal in denied if rule_refusal.reason is Reason.POLICY_DENIED), None
    )
    if forbidden is not None or flavor_name not in excluded:
        return forbidden or shortage
    rule_refusal = excluded[flavor_name]
    if rule_refusal.reason is shortage.reason and _covers_shortage(rule_refusal, shortage):
        return rule_refusal
    return _with_larger_raise(shortage, rule_refusal)


def _covers_shortage(rule_refusal: Refusal, shortage: Refusal) -> bool:
    """Return whether the rule requires at least as much quota to be released as the job lacks.

    Otherwise the job would be refused by the rule as soon as the lacking quota was released.
    """
    least = _amounts(rule_refusal, HelpCode.WAIT_FOR_RELEASE)
    return all(
        amount <= least.get(name, 0) for name, amount in _amounts(shortage, HelpCode.WAIT_FOR_RELEASE).items()
    )


def _with_larger_raise(shortage: Refusal, rule_refusal: Refusal) -> Refusal:
    """Return what a job lacks, with raises of quota that also satisfy the rule."""
    found, least = _amounts(shortage, HelpCode.RAISE_QUOTA), _amounts(rule_refusal, HelpCode.RAISE_QUOTA)
    # A rule's amount is for all roles of a job in one flavor; each of several flavors needs less.
    if not found or not least or _ask_for_other_amounts(shortage.known_numbers, rule_refusal.known_numbers):
        return shortage
    shorts = {name: max(found.get(name, 0), least.get(name, 0)) for name in (*found, *least)}
    one = next(way for way in shortage.help if way.code is HelpCode.RAISE_QUOTA)
    rest = [way for way in shortage.help if way.code is not HelpCode.RAISE_QUOTA]
    return Refusal(shortage.reason, shortage.numbers, (*rest, *expand_help(one, shorts)))


def _ask_for_other_amounts(known: Numbers, other: Numbers) -> bool:
    """Return whether two refusals are about different amounts of one resource."""
    return known.get("resource") == other.get("resource") and known.get("asked") != other.get("asked")


def _amounts(refusal: Refusal, code: HelpCode) -> dict[str, int]:
    """Return how much of each resource a refusal says would help, in one way."""
    ways = (way.numbers for way in refusal.help if way.code is code)
    return {str(numbers["resource"]): int(numbers["short"]) for numbers in ways}


def _severity(refusal: Refusal) -> float:
    return _POLICY if refusal.reason is Reason.POLICY_DENIED else SEVERITY.get(refusal.reason, 0)
