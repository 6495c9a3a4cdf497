"""Places the roles of a job one after the other, in the capacity that remains after the earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from scheduling.conformance.kueue.topology_aware.balanced import balanced_parts
from scheduling.conformance.kueue.topology_aware.choose import DomainPart, Unplaced
from scheduling.conformance.kueue.topology_aware.descend import to_leaves
from scheduling.conformance.kueue.topology_aware.eligibility import Eligibility, Known, recall_leaves
from scheduling.conformance.kueue.topology_aware.fit import Search, starting_parts
from scheduling.conformance.kueue.topology_aware.request import (
    NodePreference,
    RoleRequest,
    TopologyOptions,
    draw_plan,
)
from scheduling.conformance.kueue.topology_aware.result import (
    Failure,
    Misfit,
    Placement,
    RoleOutcome,
    Share,
    Usage,
    join_shares,
    usage_of,
)
from scheduling.conformance.kueue.topology_aware.room import add_up, count_leaves
from scheduling.conformance.kueue.topology_aware.stock import Stock
from scheduling.engine.model import PlacementRules, Toleration


class DomainGangPlacer:
    """Places roles. Placements take capacity from a copy; the stock itself is not changed.

    Args:
        stock: the free capacity of the leaves; it must not change while the placer is used.
        options: how domains are chosen.
        tolerations: those of the flavor, in addition to each role's own.
        assumed: the usage of other roles of the same job on the same nodes.
        if_empty: place as if there were no placed tasks.
        known: a cache of eligibility on the same tree, which is extended.
    """

    def __init__(
        self,
        stock: Stock,
        options: TopologyOptions,
        *,
        tolerations: tuple[Toleration, ...] = (),
        assumed: Iterable[Usage] = (),
        if_empty: bool = False,
        known: Known | None = None,
    ) -> None:
        self._stock = stock
        self._tree = stock.tree
        self._options = options
        self._tolerations = tolerations
        self._left = stock.copy_free(assumed, if_empty=if_empty)
        self._known: Known = {} if known is None else known

    def place_roles(self, requests: Sequence[RoleRequest]) -> dict[str, RoleOutcome]:
        """Return the placement or failure of each role. After the first failure no further role is
        evaluated."""
        outcomes: dict[str, RoleOutcome] = {}
        for group in _groups(requests):
            found = self._place_group(group)
            outcomes.update(found)
            if any(isinstance(outcome, Failure) for outcome in found.values()):
                break
        return outcomes

    def find_domains(
        self, workers: RoleRequest, leader: RoleRequest | None = None, within: range | None = None
    ) -> dict[str, Placement] | Failure:
        """Return domains for a role and its leader, without taking capacity; `within` is a range of
        leaves."""
        if not workers.tasks and leader is None:
            return {workers.name: Placement(self._tree.key_levels, ())}
        plan = draw_plan(self._tree, workers, 0 if leader is None else 1)
        if isinstance(plan, Failure):
            return plan
        leaves, exclusions = count_leaves(
            self._stock, self._left, self._eligible(workers, leader), workers, leader, within
        )
        search = Search(self._tree, plan, add_up(self._tree, leaves, plan), exclusions, self._options)
        parts = self._spread(search) or _tight(search)
        if isinstance(parts, Failure):
            return parts
        found = {workers.name: self._placement(parts, [part.tasks for part in parts])}
        if leader is not None:
            found[leader.name] = self._placement(parts, [part.leaders for part in parts])
        return found

    def take_placement(self, placement: Placement, per_task: Mapping[str, int]) -> None:
        """Take the capacity of a placement, so that later placements can't use it."""
        self._stock.take_usages(self._left, usage_of(placement, per_task))

    def find_stale(self, placement: Placement) -> Failure | None:
        """Return None if all domains of a placement still exist, else a failure that names a missing one."""
        missing = next(
            (share for share in placement.shares if share.domain not in self._tree.leaf_index), None
        )
        return None if missing is None else Failure.of_stale(missing.domain[0])

    def merge_placements(self, first: Placement, second: Placement) -> Placement:
        """Return two placements of one role as one."""
        index = self._tree.leaf_index
        shares = [(index[share.domain], share) for share in (*first.shares, *second.shares)]
        return join_shares(self._tree.key_levels, shares)

    def _place_group(self, group: Sequence[RoleRequest]) -> dict[str, RoleOutcome]:
        roles = _roles_of(group)
        if isinstance(roles, Failure):
            return dict.fromkeys((role.name for role in group), roles)
        workers, leader = roles
        if self._options.grow_in_place and self._keeps_previous(workers, leader):
            return self._resize(workers, leader)
        found = self.find_domains(workers, leader)
        if isinstance(found, Failure):
            return dict.fromkeys((role.name for role in group), found)
        for role in group:
            self.take_placement(found[role.name], role.per_task)
        return dict(found)

    def _keeps_previous(self, workers: RoleRequest, leader: RoleRequest | None) -> bool:
        """Return whether all previous tasks can stay in their domains."""
        if workers.previous is None or self.find_stale(workers.previous) is not None:
            return False
        if leader is None:
            return True
        if leader.previous is None:
            return workers.tasks > workers.previous.tasks
        return self.find_stale(leader.previous) is None

    def _resize(self, workers: RoleRequest, leader: RoleRequest | None) -> dict[str, RoleOutcome]:
        """Keep the running tasks: remove the last ones if the role shrinks, and place only new ones if it
        grows."""
        previous = workers.previous
        assert previous is not None  # noqa: S101 - _keeps_previous said so
        remaining = previous.first_tasks(workers.tasks)
        self.take_placement(remaining, workers.per_task)
        outcomes: dict[str, RoleOutcome] = {workers.name: remaining}
        newcomer = leader
        if leader is not None and leader.previous is not None:
            self.take_placement(leader.previous, leader.per_task)
            outcomes[leader.name], newcomer = leader.previous, None
        if workers.tasks <= previous.tasks:
            return outcomes
        more = replace(workers, tasks=workers.tasks - previous.tasks, previous=None)
        found = self.find_domains(more, newcomer)
        if isinstance(found, Failure):
            return {workers.name: found}
        self.take_placement(found[workers.name], workers.per_task)
        outcomes[workers.name] = self.merge_placements(found[workers.name], remaining)
        if newcomer is not None:
            self.take_placement(found[newcomer.name], newcomer.per_task)
            outcomes[newcomer.name] = found[newcomer.name]
        return outcomes

    def _eligible(self, workers: RoleRequest, leader: RoleRequest | None) -> tuple[Eligibility, Eligibility]:
        """Return the eligible leaves of the workers and of the leader. The leader's preferences do not count,
        because it is placed near the workers.
        """
        wishes = workers.preferences if self._options.heed_preferences else ()
        of_workers = self._rated(workers.rules, wishes)
        return of_workers, of_workers if leader is None else self._rated(leader.rules, ())

    def _rated(self, rules: PlacementRules, wishes: tuple[NodePreference, ...]) -> Eligibility:
        return recall_leaves(self._known, self._tree, rules, wishes, self._tolerations)

    def _spread(self, search: Search) -> list[DomainPart] | None:
        preferred = not (search.plan.required or search.plan.unconstrained)
        if not (self._options.balanced and preferred and self._tree.paths[0]):
            return None
        balance = balanced_parts(search)
        if balance is None:
            return None
        try:
            return to_leaves(balance.search, balance.level, balance.parts, keep_parts=True)
        except Unplaced:
            return None  # the even spread is impossible on finer levels, so best fit is used

    def _placement(self, parts: Sequence[DomainPart], tasks: Sequence[int]) -> Placement:
        shares = [
            (part.domain, Share(self._tree.leaf_key(part.domain), given))
            for part, given in zip(parts, tasks, strict=True)
            if given
        ]
        return join_shares(self._tree.key_levels, shares)


def _tight(search: Search) -> list[DomainPart] | Failure:
    """Return the parts on the leaves by best fit, or by least free capacity."""
    try:
        start = starting_parts(search)
        return start if isinstance(start, Failure) else to_leaves(search, *start)
    except Unplaced as stopped:
        return search.build_failure(search.plan.level, stopped.placed // search.plan.slice_size)


def _groups(requests: Sequence[RoleRequest]) -> list[list[RoleRequest]]:
    """Return the groups of roles that are placed together, in the order of their first role."""
    groups: dict[tuple[str, int], list[RoleRequest]] = {}
    for number, request in enumerate(requests):
        key = ("", number) if request.companions is None else (request.companions, -1)
        groups.setdefault(key, []).append(request)
    return list(groups.values())


def _roles_of(group: Sequence[RoleRequest]) -> tuple[RoleRequest, RoleRequest | None] | Failure:
    """Return the workers and their leader, which is the smaller role, or the second one of equal roles."""
    if len(group) == 1:
        return group[0], None
    workers, leader = sorted(group[:2], key=lambda role: -role.tasks)
    if len(group) > 2 or leader.tasks != 1:
        return Failure(Misfit.NOT_ONE_LEADER, fitting=leader.tasks, needed=len(group))
    return workers, leader
