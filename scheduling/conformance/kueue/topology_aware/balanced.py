"""Spreads a role evenly over the fewest domains, instead of filling one domain after the other.

The threshold is the smallest number of slices that a used domain gets. Of the groups of sibling domains that
fit the role, the one with the highest threshold is chosen, then the one that needs fewer domains. Domains
below the threshold are excluded, and a set of domains with the least unused room is found by dynamic
programming over (domains used, leader placed, tasks left). After Kueue's KEP-2724.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from scheduling.conformance.kueue.topology_aware.choose import DomainPart, by_room, by_room_with_leader
from scheduling.conformance.kueue.topology_aware.fit import Search
from scheduling.conformance.kueue.topology_aware.room import LevelRoom, Room, add_up
from scheduling.conformance.kueue.topology_aware.tree import Mask


class Balance(NamedTuple):
    """The spread of a role: parts on a level, and the search over the remaining domains."""

    search: Search
    level: int
    parts: list[DomainPart]


class _Greedy(NamedTuple):
    """The greedy choice of the roomiest domains: their number, the leader's domain, and the last one without
    it."""

    used: int
    host: int | None
    last: int | None


class _Group(NamedTuple):
    """Sibling domains without those below the threshold."""

    search: Search
    domains: list[int]
    threshold: int
    used: int


class _Chain(NamedTuple):
    """A chosen domain, linked to those chosen before it."""

    domain: int
    before: _Chain | None


def balanced_parts(search: Search) -> Balance | None:
    """Return the even spread of a preferred role; None if there is none, and best fit is used."""
    plan = search.plan
    group = _best_group(search)
    if group is None:
        return None
    level, domains = plan.level, group.domains
    if level < plan.slice_level:
        upper = _tightest_set(group.search, level, domains, _by_evenness(group.search, level))
        if upper is None:
            return None
        domains = [child for domain in upper for child in search.tree.child_domains(level, domain)]
        level += 1
    parts = _even_parts(group, level, domains)
    return None if parts is None else Balance(group.search, level, parts)


def _best_group(search: Search) -> _Group | None:
    best: _Group | None = None
    for domains in _siblings(search):
        group = _balanced_group(search, domains, best.threshold if best else 1)
        if group is None:
            continue
        if best is None or (group.threshold, -group.used) > (best.threshold, -best.used):
            best = group
    return best


def _siblings(search: Search) -> list[list[int]]:
    """Return the domains of the requested level, grouped by their parent."""
    level, tree = search.plan.level, search.tree
    if level == 0:
        return [list(range(tree.domain_count(0)))]
    return [list(tree.child_domains(level - 1, upper)) for upper in range(tree.domain_count(level - 1))]


def _balanced_group(search: Search, domains: list[int], least: int) -> _Group | None:
    """Return the group at its threshold, or at a lower one if the leader does not fit otherwise."""
    plan, level = search.plan, search.plan.level
    lower, below = domains, level
    if level < plan.slice_level:
        below = level + 1
        lower = [child for domain in domains for child in search.tree.child_domains(level, domain)]
    greedy = _greedily(search, below, lower)
    if greedy is None:
        return None
    room = search.room[below]
    limits = [plan.slices // greedy.used]
    limits += [int(room.led_slices[greedy.host])] if greedy.host is not None else []
    limits += [int(room.slices[greedy.last])] if greedy.last is not None else []
    thresholds = [min(limits)]
    if plan.leaders and greedy.last is not None:
        thresholds.append(min(thresholds[0], int(room.led_slices[greedy.last])))
    for threshold in dict.fromkeys(thresholds):
        if threshold < least:
            return None
        thinned = replace(search, room=_without_small(search, domains, threshold))
        fitting = _greedily(thinned, level, domains)
        if fitting is not None:
            return _Group(thinned, domains, threshold, fitting.used)
    return None


def _greedily(search: Search, level: int, domains: Sequence[int]) -> _Greedy | None:
    room, need, used = search.room[level], search.plan.slices, 0
    host = last = None
    rest = list(domains)
    if search.plan.leaders:
        first, *others = by_room_with_leader(room, domains, least_first=False)
        if not room.leaders[first]:
            return None
        host, used, rest = first, 1, others
        need -= int(room.led_slices[first])
    for domain in by_room(room, rest, least_first=False):
        if need <= 0:
            break
        if not room.slices[domain]:
            continue
        last, used = domain, used + 1
        need -= int(room.slices[domain])
    return None if need > 0 else _Greedy(used, host, last)


def _without_small(search: Search, domains: Sequence[int], threshold: int) -> Room:
    """Return the room without domains below the threshold, first among the children, then among the
    domains."""
    plan, tree, room = search.plan, search.tree, search.room
    level = plan.level
    if level < tree.lowest:
        children = [child for domain in domains for child in tree.child_domains(level, domain)]
        leaves = _emptied(search, room, level + 1, children, threshold)
        room = add_up(tree, leaves, plan)
    leaves = _emptied(search, room, level, domains, threshold)
    return add_up(tree, leaves, plan)


def _emptied(search: Search, room: Room, level: int, domains: Sequence[int], threshold: int) -> LevelRoom:
    """Return the leaves without those in domains below the threshold; domains that are below it with the
    leader can not host it."""
    here, leaves = room[level], room[-1]
    removed, leaderless = np.zeros(len(leaves.tasks), np.bool_), np.zeros(len(leaves.tasks), np.bool_)
    for domain in domains:
        inside = search.tree.domains_inside(level, domain, search.tree.lowest)
        if here.slices[domain] < threshold:
            removed[inside.start : inside.stop] = True
        elif search.plan.leaders and here.leaders[domain] and here.led_slices[domain] < threshold:
            leaderless[inside.start : inside.stop] = True
    return _cleared(leaves, removed, removed | leaderless)


def _cleared(leaves: LevelRoom, removed: Mask, unled: Mask) -> LevelRoom:
    return replace(
        leaves,
        tasks=np.where(removed, 0, leaves.tasks),
        slices=np.where(removed, 0, leaves.slices),
        led_tasks=np.where(unled, 0, leaves.led_tasks),
        led_slices=np.where(unled, 0, leaves.led_slices),
        leaders=np.where(unled, 0, leaves.leaders),
    )


def _by_evenness(search: Search, level: int) -> Callable[[int], tuple[float, ...]]:
    """Return the sort key: roomy domains first, and of equal ones those with the most even children."""
    room, finer = search.room[level], search.room[level + 1].tasks

    def key(domain: int) -> tuple[float, ...]:
        inside = search.tree.child_domains(level, domain)
        evenness = _entropy(finer[inside.start : inside.stop].tolist())
        return (-int(room.leaders[domain]), -int(room.led_slices[domain]), -evenness, domain)

    return key


def _entropy(amounts: Sequence[int]) -> float:
    total = sum(amounts)
    return -math.fsum(part / total * math.log2(part / total) for part in amounts if part)


def _tightest_set(
    search: Search, level: int, domains: Sequence[int], key: Callable[[int], tuple[float, ...]] | None = None
) -> list[int] | None:
    """Return as many domains as the greedy choice needs, with the least unused room; earlier ones on a
    tie."""
    greedy = _greedily(search, level, domains)
    if greedy is None:
        return None
    plan, room = search.plan, search.room[level]
    reached: list[dict[tuple[int, int], _Chain | None]] = [{} for _ in range(greedy.used + 1)]
    reached[0][plan.leaders, plan.slices * plan.slice_size] = None
    for domain in sorted(domains, key=key):
        for used in range(greedy.used, 0, -1):
            for (leaders, left), chain in sorted(reached[used - 1].items(), key=lambda state: state[0]):
                if leaders <= 0 and left <= 0:
                    continue
                longer = _Chain(domain, chain)
                if leaders and room.leaders[domain]:
                    reached[used].setdefault((0, left - int(room.led_tasks[domain])), longer)
                if room.slices[domain]:
                    reached[used].setdefault((leaders, left - int(room.tasks[domain])), longer)
    enough = [left for leaders, left in reached[-1] if leaders == 0 and left <= 0]
    return _unrolled(reached[-1][0, max(enough)]) if enough else None


def _unrolled(chain: _Chain | None) -> list[int]:
    domains: list[int] = []
    while chain is not None:
        domains.append(chain.domain)
        chain = chain.before
    return domains[::-1]


def _even_parts(group: _Group, level: int, candidates: Sequence[int]) -> list[DomainPart] | None:
    """Return parts with the threshold for each domain, and the rest for the roomiest ones."""
    search, threshold, plan = group.search, group.threshold, group.search.plan
    chosen = _tightest_set(search, level, candidates)
    if chosen is None or plan.slices < len(chosen) * threshold:
        return None
    room, extra, leaders = search.room[level], plan.slices - len(chosen) * threshold, plan.leaders
    parts: list[DomainPart] = []
    for domain in by_room_with_leader(room, chosen, least_first=False):
        takes = int((room.led_slices if leaders else room.slices)[domain]) - threshold
        more = min(takes, extra)
        parts.append(DomainPart(domain, (threshold + more) * plan.slice_size, leaders))
        extra, leaders = extra - more, 0
    return None if extra else parts
