"""Finds the level, and the domains on it, that fit a whole role, tightest first."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.conformance.kueue.topology_aware.choose import (
    DomainPart,
    Units,
    by_room,
    by_room_with_leader,
    divide_units,
    find_tightest,
    host_first,
    units_of,
    uses_best_fit,
)
from scheduling.conformance.kueue.topology_aware.request import Plan, TopologyOptions
from scheduling.conformance.kueue.topology_aware.result import Exclusions, Failure, LayerRoom, Misfit
from scheduling.conformance.kueue.topology_aware.room import Room
from scheduling.conformance.kueue.topology_aware.tree import TopologyTree


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """The search for one role: the plan, the counted room, and the excluded leaves."""

    tree: TopologyTree
    plan: Plan
    room: Room
    exclusions: Exclusions
    options: TopologyOptions

    @property
    def best_fit(self) -> bool:
        """True if domains are chosen by best fit; otherwise the least free domains come first."""
        return uses_best_fit(self.plan, self.options.mixed_profile)

    def build_failure(self, level: int, fitting: int) -> Failure:
        """Return the failure for a lack of room: only `fitting` slices fit at a level."""
        several = len(self.plan.inner_sizes) > 0
        return Failure(
            Misfit.NO_ROOM,
            fitting=fitting,
            needed=self.plan.slices,
            slice_size=self.plan.slice_size,
            level=self.tree.levels[level],
            layers=_layers(self, level) if several else (),
            exclusions=self.exclusions,
        )


def starting_parts(search: Search) -> tuple[int, list[DomainPart]] | Failure:
    """Return the level at which the role is placed, and the number of tasks in each domain there.

    It is one domain if any fits all tasks: of the requested level, or, unless that level is required, of the
    finest coarser level with such a domain. Otherwise it is several domains of the coarsest level (for
    unconstrained roles of the requested level).
    """
    plan = search.plan
    chosen = _chosen_domains(search, plan.level)
    if isinstance(chosen, Failure):
        return chosen
    level, domains = chosen
    units = units_of(search.room[level], domains, plan.slice_size, True)
    parts = divide_units(
        domains, units, plan.slices, plan.leaders, plan.slice_size, best_fit=search.best_fit
    )  # fmt: skip
    return level, parts


def _chosen_domains(search: Search, level: int) -> tuple[int, list[int]] | Failure:
    plan = search.plan
    if not search.tree.domain_count(level):
        return Failure(Misfit.NO_DOMAINS, level=search.tree.levels[level])
    room = search.room[level]
    ordered = by_room_with_leader(
        room, range(search.tree.domain_count(level)), least_first=not search.best_fit
    )  # fmt: skip
    units = units_of(room, ordered, plan.slice_size, True)
    single = _single_domain(search, ordered, units)
    if single is not None:
        return level, [single]
    if plan.required:
        return search.build_failure(level, units.plain[ordered[0]])
    if level > 0 and not plan.unconstrained:
        return _chosen_domains(search, level - 1)
    return _several_domains(search, level, ordered, units)


def _single_domain(search: Search, ordered: list[int], units: Units) -> int | None:
    """Return a domain that fits everything, if the rules allow it; else None."""
    plan = search.plan
    taking = [
        place
        for place, domain in enumerate(ordered)
        if units.led[domain] >= plan.slices and units.leaders[domain] >= plan.leaders
    ]
    if not taking:
        return None
    if not search.best_fit:
        return ordered[taking[0]]
    # If the most preferred domains are too small, a coarser level is tried before less preferred domains.
    if taking[0] > 0 and not plan.required:
        return None
    return find_tightest(ordered[taking[0] :], units, plan.slices, plan.leaders)


def _several_domains(
    search: Search, level: int, ordered: list[int], units: Units
) -> tuple[int, list[int]] | Failure:
    """Return the leader's domain and then the roomiest (or least free) domains until all slices fit."""
    plan, need, leaders = search.plan, search.plan.slices, search.plan.leaders
    chosen: list[int] = []
    if leaders:
        # The leader's domain is chosen here, because a domain that is left out is not considered below.
        ordered = host_first(ordered, units, need, leaders)
        host = ordered[0]
        if not units.leaders[host]:
            return search.build_failure(level, 0)
        if search.best_fit and units.led[host] >= need:
            host = find_tightest(ordered, units, need, leaders)
        chosen.append(host)
        need -= units.led[host]
    rest = [domain for domain in ordered if domain not in chosen]
    rest = by_room(search.room[level], rest, least_first=not search.best_fit)
    for place, domain in enumerate(rest):
        if need <= 0:
            break
        if search.best_fit and units.plain[domain] >= need:
            domain = find_tightest(rest[place:], units, need, 0)
        chosen.append(domain)
        need -= units.plain[domain]
    if need > 0:
        return search.build_failure(level, plan.slices - need)
    return level, chosen


def _layers(search: Search, level: int) -> tuple[LayerRoom, ...]:
    """Return the room for each slice layer in the domain of a level that fits the most slices."""
    slices = search.room[level].slices
    best = int(slices.argmax())
    found: list[LayerRoom] = []
    for layer in search.plan.layers:
        finer = search.tree.level_named(layer.level)
        if finer is None or finer < level:
            continue
        inside = search.tree.domains_inside(level, best, finer)
        groups = search.room[finer].tasks[inside.start : inside.stop] // layer.size
        found.append(LayerRoom(layer.level, int(groups.sum()), search.plan.tasks // layer.size))
    return tuple(found)
