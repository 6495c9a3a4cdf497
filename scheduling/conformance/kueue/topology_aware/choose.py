"""Orders domains and divides tasks among them, for all profiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from scheduling.conformance.kueue.topology_aware.request import Plan
from scheduling.conformance.kueue.topology_aware.room import LevelRoom


class DomainPart(NamedTuple):
    """The part of one domain: the number of tasks, and of leaders (1 or 0)."""

    domain: int
    tasks: int
    leaders: int


class Units(NamedTuple):
    """The room of candidate domains in the divided units (slices, or groups of tasks)."""

    plain: dict[int, int]
    led: dict[int, int]
    leaders: dict[int, int]
    liking: dict[int, int]


class Unplaced(Exception):
    """Domains that were counted as large enough were not: only `placed` tasks could be placed."""

    def __init__(self, placed: int) -> None:
        super().__init__(f"only {placed} tasks placed")
        self.placed = placed


def units_of(room: LevelRoom, domains: Sequence[int], size: int, in_slices: bool) -> Units:
    """Return the room of some domains of a level."""
    index = np.asarray(domains, dtype=np.int64)
    plain, led = room.count_units(size, in_slices)

    def list_units(array: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> dict[int, int]:
        return dict(zip(domains, array[index].tolist(), strict=True))

    return Units(list_units(plain), list_units(led), list_units(room.leaders), list_units(room.liking))


def by_room(room: LevelRoom, domains: Iterable[int], *, least_first: bool) -> list[int]:
    """Return domains by preference, then most slices (or fewest), then fewest remaining tasks, then path."""
    index = np.fromiter(domains, dtype=np.int64)
    sign = 1 if least_first else -1
    keys = (index, room.tasks[index], sign * room.slices[index], -room.liking[index])
    ordered: list[int] = index[np.lexsort(keys)].tolist()
    return ordered


def by_room_with_leader(room: LevelRoom, domains: Iterable[int], *, least_first: bool) -> list[int]:
    """Return domains as `by_room`, counted with the leader; those that can host the leader come first."""
    index = np.fromiter(domains, dtype=np.int64)
    sign = 1 if least_first else -1
    keys = (
        index,
        room.led_tasks[index],
        sign * room.led_slices[index],
        -room.liking[index],
        -room.leaders[index],
    )
    ordered: list[int] = index[np.lexsort(keys)].tolist()
    return ordered


def find_tightest(ordered: Sequence[int], units: Units, need: int, leaders: int) -> int:
    """Return the domain with the least room for all of `need`, among those as preferred as the first one.

    Ties go to the earlier one. If none has enough room, return the first one.
    """
    room = units.led if leaders else units.plain
    best, best_room = ordered[0], None
    for domain in ordered:
        if units.liking[domain] != units.liking[ordered[0]]:
            break
        if units.leaders[domain] < leaders or room[domain] < need:
            continue
        if best_room is None or room[domain] < best_room:
            best, best_room = domain, room[domain]
    return best


def host_first(ordered: Sequence[int], units: Units, need: int, leaders: int) -> list[int]:
    """Move the first domain that can host the leader, with enough room left for all workers, to the front.

    A domain in which the leader displaces workers could make the total room too small.
    """
    if not leaders or len(ordered) < 2:
        return list(ordered)
    spare = sum(units.plain[domain] for domain in ordered) - need
    for place, domain in enumerate(ordered):
        if units.leaders[domain] >= leaders and units.plain[domain] - units.led[domain] <= spare:
            return [domain, *ordered[:place], *ordered[place + 1 :]]
    return list(ordered)


def divide_units(
    ordered: Sequence[int], units: Units, need: int, leaders: int, size: int, *, best_fit: bool
) -> list[DomainPart]:
    """Fill domains in order until `need` units of `size` tasks and the leader are placed.

    With `best_fit` the last domain is the tightest one that takes the rest.

    Raises:
        Unplaced: when not all fit.
    """
    queue = host_first(ordered, units, need, leaders)
    parts: list[DomainPart] = []
    wanted = need
    for place, domain in enumerate(queue):
        room = units.led if leaders else units.plain
        if room[domain] >= need and units.leaders[domain] >= leaders:
            last = find_tightest(queue[place:], units, need, leaders) if best_fit else domain
            parts.append(DomainPart(last, need * size, leaders))
            return parts
        given, hosted = min(room[domain], need), min(units.leaders[domain], leaders)
        if given or hosted:
            parts.append(DomainPart(domain, given * size, hosted))
        need -= given
        leaders -= hosted
    raise Unplaced((wanted - need) * size)


def uses_best_fit(plan: Plan, mixed_profile: bool) -> bool:
    """Return whether best fit is used; unconstrained tasks fill the least free domains in the mixed
    profile."""
    return not (plan.unconstrained and mixed_profile)
