"""Divides tasks from the chosen domains down to the leaves."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.conformance.kueue.topology_aware.choose import DomainPart, by_room, divide_units, units_of
from scheduling.conformance.kueue.topology_aware.fit import Search


def to_leaves(
    search: Search, level: int, parts: list[DomainPart], *, keep_parts: bool = False
) -> list[DomainPart]:
    """Return the parts on the lowest level.

    Above the level of slices the children of all chosen domains are considered together, because fewer of
    them may suffice than with the shares of their parents; with `keep_parts`, and from the slices downwards,
    each domain's tasks stay inside it.

    Raises:
        Unplaced: when a domain has more tasks than its children can take.
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
    """Return the parts of tasks in some domains of a level, in groups that must not be split there."""
    plan, room = search.plan, search.room[level]
    ordered = by_room(room, domains, least_first=not search.best_fit)
    size = plan.size_at(level)
    units = units_of(room, ordered, size, level <= plan.slice_level)
    return divide_units(ordered, units, tasks // size, leaders, size, best_fit=search.best_fit)
