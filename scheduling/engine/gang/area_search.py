"""Topology rules of a job's parts and roles turned into the areas in which they are tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from scheduling.engine.gang.domains import DomainArea, DomainSearch, ShapeDemand
from scheduling.engine.gang.parts import TaskCounts
from scheduling.engine.gang.refusals import refuse_no_domain
from scheduling.engine.gang.tasks import RoleTasks
from scheduling.engine.model import Job, Role, TopologyMode, TopologyRule
from scheduling.engine.placement.index.levels import levels_of, topology_labels
from scheduling.engine.placement.placer import Placer
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.state.fleet import Ints
from scheduling.engine.state.snapshot import Snapshot

# Domains that one try may look into; nested parts would otherwise multiply them without end.
DOMAINS_PER_TRY = 512


class AreaSearch:
    """The domains that one job's parts may try, within a common budget."""

    def __init__(self, snapshot: Snapshot, placer: Placer, job: Job, tasks: Mapping[str, RoleTasks]) -> None:
        self._snapshot, self._placer, self._job, self._tasks = snapshot, placer, job, tasks
        self._order = {role.name: position for position, role in enumerate(job.roles)}
        self._left = DOMAINS_PER_TRY

    def hardest_first_key(self, roles: Iterable[Role], more: TaskCounts) -> tuple[object, ...]:
        """A key by which what is hardest to place comes first, then the job's order."""
        keys = [
            (self._tasks[role.name].hardness, self._order[role.name]) for role in roles if more.get(role.name)
        ]
        return min(keys, default=((0, 0, 0, 0), len(self._order)))

    def find_areas(
        self, rule: TopologyRule, roles: list[Role], more: TaskCounts, outer: DomainArea, pinned: list[Role]
    ) -> Iterator[DomainArea]:
        """The domains to try, best first; where tasks of `pinned` roles stand already counts."""
        for area in self._search(rule, roles, more, outer, pinned).find_areas():
            if self._left == 0:
                return
            self._left -= 1
            yield area

    def explain_refusal(
        self, rule: TopologyRule, roles: list[Role], more: TaskCounts, outer: DomainArea
    ) -> Refusal | None:
        """Why no domain of a required level would do; a preferred one is never the reason."""
        if rule.mode is not TopologyMode.REQUIRED:
            return None
        search = self._search(rule, roles, more, outer, [])
        return refuse_no_domain(
            search.demands[0].board, self._entries(roles)[0], rule, search.count_best_domain()
        )

    def _search(
        self, rule: TopologyRule, roles: list[Role], more: TaskCounts, outer: DomainArea, pinned: list[Role]
    ) -> DomainSearch:
        entries = self._entries(roles)
        levels = levels_of(self._snapshot.fleet, topology_labels(rule, [entry.flavor for entry in entries]))
        wanted = tuple(
            ShapeDemand(self._placer.board(entry.task, entry.flavor), more[entry.role.name])
            for entry in entries
        )
        return DomainSearch(levels, rule, wanted, outer, self._rows_of(pinned))

    def _entries(self, roles: list[Role]) -> list[RoleTasks]:
        """Hardest first."""
        found = [self._tasks[role.name] for role in roles]
        return sorted(found, key=lambda entry: (entry.hardness, self._order[entry.role.name]))

    def _rows_of(self, roles: list[Role]) -> Ints:
        """Rows on which tasks of these roles stand, those placed in this try included."""
        names = {role.name for role in roles}
        known = self._snapshot.fleet.row
        held = self._snapshot.held(self._job.id) if names else ()
        rows = {known[a.node] for a in held if a.role in names and not a.leaving and a.node in known}
        return np.array(sorted(rows), np.int64)


def constrains_placement(rule: TopologyRule) -> bool:
    """Whether a rule says anything about where tasks stand as a whole."""
    return rule.mode is not TopologyMode.UNCONSTRAINED and bool(rule.level)


def slice_rule(rule: TopologyRule | None) -> TopologyRule | None:
    """The rule that holds for every slice of a role; None without slices."""
    if rule is None or not rule.slice_level or rule.slice_size < 1:
        return None
    return TopologyRule(level=rule.slice_level, mode=TopologyMode.REQUIRED)
