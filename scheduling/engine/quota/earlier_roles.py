"""The assignment of a job whose earlier roles hold the flavor that a later role needs.

Roles are assigned in order, each to the first flavor that is good enough. A role may so take the only flavor
that a later one can use, and a job that would fit waits for ever. Here earlier roles skip such flavors.
Kueue does not do this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from scheduling.engine.model import FlavorResource, Queue, ResourceName
from scheduling.engine.quota.assignment import Assignment, AssignmentMode, FlavorTry, RoleAssignment
from scheduling.engine.quota.fungibility import tries_next_flavor
from scheduling.engine.quota.one_cluster import FlavorFilter, is_better, rank_assignment

# The most searches for one job; each costs as much as the first one.
MAX_SEARCHES = 24

_RoleFlavors = frozenset[tuple[str, str]]


def assign_around_earlier_roles(
    search: Callable[[FlavorFilter | None], Assignment], queue: Queue, allowed: FlavorFilter | None
) -> Assignment:
    """Return the best of what `search` finds among the allowed flavors while earlier roles skip some of them.

    Fewer skipped flavors are tried first.
    """
    best = search(allowed)
    pending = deque(_skip_contested(best, frozenset()))
    seen = set(pending)
    for _ in range(MAX_SEARCHES):
        if not pending or not _may_improve(best, queue):
            break
        skipped = pending.popleft()
        found = search(_skip(skipped, allowed))
        if is_better(found, best, queue):
            best = found
        fresh = [more for more in _skip_contested(found, skipped) if more not in seen]
        pending.extend(fresh)
        seen.update(fresh)
    return best


def _may_improve(found: Assignment, queue: Queue) -> bool:
    rank = rank_assignment(found)
    return rank.mode is not AssignmentMode.FIT and tries_next_flavor(rank, queue.fungibility)


def _skip_contested(found: Assignment, skipped: _RoleFlavors) -> Iterator[_RoleFlavors]:
    """Yield the skipped flavors with one more: that of an earlier role, the last one first, without which a
    later role may fit there."""
    for place, role in enumerate(found.roles):
        if role.mode is AssignmentMode.FIT:
            continue
        earlier = found.roles[:place]
        contested = {tried.flavor for tried in role.tries if _suffices(earlier, tried)}
        for other in reversed(earlier):
            yield from (skipped | {(other.role, name)} for name in other.flavors if name in contested)


def _suffices(earlier: Sequence[RoleAssignment], tried: FlavorTry) -> bool:
    """Return whether earlier roles use at least what a role lacks in a flavor."""
    for refusal in tried.refusals:
        numbers = refusal.known_numbers
        if "short" not in numbers:
            return False
        key = FlavorResource(tried.flavor, str(numbers["resource"]))
        if sum(role.usage.get(key, 0) for role in earlier) < int(numbers["short"]):
            return False
    return bool(tried.refusals)


def _skip(pairs: _RoleFlavors, allowed: FlavorFilter | None) -> FlavorFilter:
    def may(role: str, resource: ResourceName, flavor: str) -> bool:
        return (role, flavor) not in pairs and (allowed is None or allowed(role, resource, flavor))

    return may
