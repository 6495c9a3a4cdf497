"""Hand tasks down from the chosen domains to the leaves."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.conformance.kueue.topology_aware.choose import DomainPart, by_room, divide_units, units_of
from scheduling.conformance.kueue.topology_aware.fit import Search


def to_leaves(
    search: Search, level: int, parts: list[DomainPart], *, keep_parts: bool = False
) -> list[DomainPart]:
    """The parts on the lowest level.

    Above the level of the slices the children of all chosen domains are looked at together, because
    fewer of them may do than the shares of their parents would suggest; with `keep_parts`, and from the
    slices on downwards, each domain's tasks stay inside it.

    Raises:
        Unplaced: when a domain was given more than its children hold.
    """
    tree, plan = search.tree, search.plan
    while level < tree.lowest:
        if level < plan.slice_level and not keep_parts:
            children = (child for part in parts for child in tree.child_domains(level, part.domain))
            parts = _share_out(search, level + 1, children, plan.tasks, plan.leaders)
        else:
            parts = [
                smaller
                for part in parts
                for smaller in _share_out(
                    search, level + 1, tree.child_domains(level, part.domain), part.tasks, part.leaders
                )
            ]
        level += 1
    return parts


def _share_out(
    search: Search, level: int, domains: Iterable[int], tasks: int, leaders: int
) -> list[DomainPart]:
    """Divide tasks among some domains of a level, in groups that must not be split there."""
    plan, room = search.plan, search.room[level]
    ordered = by_room(room, domains, least_first=not search.best_fit)
    size = plan.size_at(level)
    units = units_of(room, ordered, size, level <= plan.slice_level)
    return divide_units(ordered, units, tasks // size, leaders, size, best_fit=search.best_fit)
