"""This module turns the topology rules of a job and its parts into the areas in which they are tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

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

# The number of domains that one attempt may examine; nested parts would otherwise multiply them.
DOMAINS_PER_TRY = 512


class AreaSearch:
    """The domains that one job's parts may try, within a common budget."""

    def __init__(self, snapshot: Snapshot, placer: Placer, job: Job, tasks: Mapping[str, RoleTasks]) -> None:
        self._snapshot, self._placer, self._job, self._tasks = snapshot, placer, job, tasks
        self._order = {role.name: position for position, role in enumerate(job.roles)}
        self._budget = DOMAINS_PER_TRY

    def hardest_first_key(self, roles: Iterable[Role], more: TaskCounts) -> tuple[object, ...]:
        """Return a sort key: the roles that are hardest to place first, then in the job's order."""
        keys = [
            (self._tasks[role.name].hardness, self._order[role.name]) for role in roles if more.get(role.name)
        ]
        return min(keys, default=((0, 0, 0, 0), len(self._order)))

    def find_areas(
        self, rule: TopologyRule, roles: list[Role], more: TaskCounts, outer: DomainArea, pinned: list[Role]
    ) -> Iterator[DomainArea]:
        """Yield the domains to try, best first; rows with running tasks of the `pinned` roles count."""
        for area in self._domain_search(rule, roles, more, outer, pinned).find_areas():
            if self._budget == 0:
                return
            self._budget -= 1
            yield area

    def explain_refusal(
        self, rule: TopologyRule, roles: list[Role], more: TaskCounts, outer: DomainArea
    ) -> Refusal | None:
        """Return why no domain of a required level takes the tasks; a preferred level is never the reason."""
        if rule.mode is not TopologyMode.REQUIRED:
            return None
        search = self._domain_search(rule, roles, more, outer, [])
        fits_without_claims = False
        if any(self._tasks[role.name].task.volume_claims for role in roles):
            unclaimed = self._domain_search(rule, roles, more, outer, [], mount=False)
            fits_without_claims = next(unclaimed.find_areas(), None) is not None
        return refuse_no_domain(
            search.demands[0].board,
            self._entries(roles)[0],
            rule,
            search.count_best_domain(),
            name_claim=fits_without_claims,
        )

    def _domain_search(
        self,
        rule: TopologyRule,
        roles: list[Role],
        more: TaskCounts,
        outer: DomainArea,
        pinned: list[Role],
        *,
        mount: bool = True,
    ) -> DomainSearch:
        """Return the search for the domains of some roles; without `mount` as if they mounted no volumes."""
        entries = self._entries(roles)
        asked = tuple(label for label in (rule.level, rule.preferred_level) if label)
        labels = topology_labels(asked, [entry.flavor for entry in entries])
        wanted = tuple(
            ShapeDemand(
                self._placer.get_board(
                    entry.task if mount else replace(entry.task, volume_claims=()), entry.flavor
                ),
                more[entry.role.name],
            )
            for entry in entries
        )
        return DomainSearch(
            levels_of(self._snapshot.fleet, labels), rule, wanted, outer, self._placed_rows(pinned)
        )

    def _entries(self, roles: list[Role]) -> list[RoleTasks]:
        """Return the roles' tasks, hardest first."""
        found = [self._tasks[role.name] for role in roles]
        return sorted(found, key=lambda entry: (entry.hardness, self._order[entry.role.name]))

    def _placed_rows(self, roles: list[Role]) -> Ints:
        """Return the rows with tasks of these roles, including tasks placed in this attempt."""
        names = {role.name for role in roles}
        known = self._snapshot.fleet.row
        held = self._snapshot.allocations_of(self._job.id) if names else ()
        rows = {known[a.node] for a in held if a.role in names and not a.leaving and a.node in known}
        return np.array(sorted(rows), np.int64)


def constrains_placement(rule: TopologyRule) -> bool:
    """Return whether a rule constrains where the tasks are placed as a whole."""
    return rule.mode is not TopologyMode.UNCONSTRAINED and bool(rule.level)


def relates_tasks(job: Job) -> bool:
    """Return whether parts or a topology rule relate the places of a job's tasks to each other."""
    return bool(job.sub_gangs) or (job.topology is not None and constrains_placement(job.topology))
