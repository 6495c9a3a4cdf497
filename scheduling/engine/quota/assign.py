"""The search for the flavors of a job's roles over the ordered flavors of its queue.

Source: Kueue's flavor assigner (pkg/scheduler/flavorassigner). Roles are assigned in order, and the usage of
one counts against the next; roles of one topology group (`companions`) are assigned together. Resources of
one group come from one flavor. The search over a group ends at a flavor that is good enough by the queue's
fungibility, and otherwise takes the best. A job is never spread over clusters (`assign_in_one_cluster`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduling.engine.model import (
    Flavor,
    FlavorResource,
    Job,
    Queue,
    Reason,
    ResourceGroup,
    ResourceName,
    Role,
)
from scheduling.engine.placement.index.clusters import clusters_of
from scheduling.engine.quota.assignment import (
    SEVERITY,
    Assignment,
    AssignmentMode,
    FlavorChoice,
    FlavorTry,
    Refusal,
    RoleAssignment,
)
from scheduling.engine.quota.earlier_roles import assign_around_earlier_roles
from scheduling.engine.quota.explain_shortage import RequestedAmounts, explain_shortage
from scheduling.engine.quota.fit import FREE, Fit, Oracle, QuotaTerms, fixed_usage
from scheduling.engine.quota.flavors import Mismatch, find_mismatch
from scheduling.engine.quota.fungibility import BEST, WORST, FlavorRank, is_preferred, tries_next_flavor
from scheduling.engine.quota.one_cluster import FlavorFilter, assign_in_one_cluster
from scheduling.engine.quota.partial_admission import RoleCounts, full_counts
from scheduling.engine.quota.role_groups import NEUTRAL, RoleGroup, group_roles, requested_resources
from scheduling.engine.quota.shortage import Shortage, combine_shortages, is_eviction_capped
from scheduling.engine.state.charges import compute_demand
from scheduling.engine.state.snapshot import Snapshot

_Found = tuple[str, list[Fit]]


@dataclass(frozen=True, slots=True)
class ReplacedRole:
    """The flavors and amounts of a role of the replaced job.

    The new role stays in these flavors and is charged the difference only.
    """

    flavors: Mapping[ResourceName, str]
    amounts: Mapping[ResourceName, int]


def assign_flavors(
    snapshot: Snapshot,
    queue: Queue,
    job: Job,
    *,
    oracle: Oracle | None,
    fair: bool,
    counts: RoleCounts | None = None,
    replaced: Mapping[str, ReplacedRole] | None = None,
    allowed: FlavorFilter | None = None,
    eviction_cap: int | None = None,
    nominal_counts_non_preemptible_only: bool = False,
    nominal_counts_unevictable_only: bool = False,
    reassign_roles: bool = False,
) -> Assignment:
    """Return the flavors of each role for the present usage; the snapshot does not change.

    Args:
        oracle: the simulated preemption; None if nothing may be preempted. fair: whether preemption is by
        fair sharing. counts: the size to try, by role; the full size otherwise. replaced: the flavors and
        amounts of the job that this one replaces, by role. allowed: the flavors to be tried; all otherwise.
        One role of a group is enough to allow it. eviction_cap: the number of evictions after which a job no
        longer borrows. nominal_counts_non_preemptible_only: only non-preemptible jobs count against the
        nominal of such a job. nominal_counts_unevictable_only: only jobs that cannot be evicted count against
        the nominal of a job at its cap. reassign_roles: whether an earlier role may skip a flavor for a later
        one.
    """
    alone = (
        nominal_counts_unevictable_only and is_eviction_capped(job, eviction_cap)
        if job.preemptible
        else nominal_counts_non_preemptible_only
    )
    fixed = fixed_usage(snapshot, queue, eviction_cap) if alone else None
    terms = QuotaTerms(
        snapshot.quota, queue, job, oracle=oracle, fair=fair, eviction_cap=eviction_cap, fixed=fixed
    )
    size = full_counts(job) if counts is None else counts

    def search_in_order(allowed: FlavorFilter | None) -> Assignment:
        return _FlavorSearch(snapshot, queue, job, terms, size, replaced or {}, allowed).run()

    def search(allowed: FlavorFilter | None) -> Assignment:
        if not reassign_roles or len(job.roles) < 2:
            return search_in_order(allowed)
        return assign_around_earlier_roles(search_in_order, queue, allowed)

    return assign_in_one_cluster(search, snapshot.flavors, queue, allowed)


class _FlavorSearch:
    """One search, with the usage of the roles that are assigned already."""

    def __init__(
        self,
        snapshot: Snapshot,
        queue: Queue,
        job: Job,
        terms: QuotaTerms,
        size: RoleCounts,
        replaced: Mapping[str, ReplacedRole],
        allowed: FlavorFilter | None,
    ) -> None:
        self._snapshot, self._queue, self._job, self._terms = snapshot, queue, job, terms
        self._size, self._replaced, self._allowed = size, replaced, allowed
        self._usage: dict[FlavorResource, int] = {}
        self._amounts: dict[tuple[str, str], Mapping[ResourceName, int]] = {}
        self._flavors = snapshot.flavors
        self._resource_groups = queue.effective_groups
        kinds = {
            self._flavors[name].placed
            for group in self._resource_groups
            for name in group.flavors
            if name in self._flavors
        }
        self._mixed = len(kinds) > 1

    def run(self) -> Assignment:
        done: list[RoleAssignment] = []
        groups = group_roles(self._job.roles)
        for position, group in enumerate(groups):
            if group.resources:
                self._assign_group(group, groups[position + 1 :])
            else:
                self._choose_node_flavor(group, done)
            done.extend(self._charge_role(group, role) for role in group.roles)
            if group.failed:
                break
        return Assignment(roles=tuple(done), usage=self._usage)

    def _assign_group(self, group: RoleGroup, later: list[RoleGroup]) -> None:
        for resource in group.resources:
            if resource in group.choices:
                continue
            found = self._find_resource_group(resource)
            if found is None:
                if self._requests(group, resource):
                    group.refusal = _refuse_everywhere(group.roles[0], self._size, resource=resource)
                    break
                continue
            if not self._search_resource_group(group, *found, resource, later):
                break
        else:
            return
        group.failed = True
        group.choices = {}

    def _choose_node_flavor(self, group: RoleGroup, done: list[RoleAssignment]) -> None:
        """Assign to roles without requests the first allowed flavor with nodes in the others' cluster."""
        named = dict.fromkeys(name for each in self._resource_groups for name in each.flavors)
        known = [flavor for name in named if (flavor := self._flavors.get(name)) is not None]
        with_nodes = [f for f in known if f.takes_tasks]
        clusters = clusters_of(self._flavors, (name for role in done for name in role.flavors))
        for flavor in with_nodes:
            here = not clusters or flavor.cluster in clusters
            if here and all(self._may_use(role, flavor) for role in group.roles):
                group.node_flavor = flavor.id
                return
        if with_nodes and any(self._size[role.name] for role in group.roles):
            group.refusal = _refuse_everywhere(group.roles[0], self._size)
            group.failed = True

    def _may_use(self, role: Role, flavor: Flavor) -> bool:
        return self._allowed is None or self._allowed(role.name, "", flavor.id)

    def _search_resource_group(
        self,
        group: RoleGroup,
        number: int,
        resources: ResourceGroup,
        first: ResourceName,
        later: list[RoleGroup],
    ) -> bool:
        """Choose a flavor of one resource group for the roles, and return whether there is one."""
        covered = resources.resources
        names = [name for name in group.resources if not covered or name in covered]
        best: _Found | None = None
        best_rank, last, before = WORST, -1, len(group.tries)
        for index, name in enumerate(resources.flavors):
            last = index
            if self._allowed is not None and not any(
                self._allowed(role.name, first, name) for role in group.roles
            ):
                continue
            rank, fits, tried = self._try(group, (number, resources), names, name)
            group.tries.append(tried)
            if not tries_next_flavor(rank, self._queue.fungibility):
                best, best_rank = (name, fits), rank
                break
            if is_preferred(rank, best_rank, self._queue.fungibility.preference):
                best, best_rank = (name, fits), rank
        if best_rank.mode is not AssignmentMode.FIT:
            self._explain(group, group.tries[before:], None if best is None else best_rank, later)
        if best is None:
            return False
        stop = -1 if last == len(resources.flavors) - 1 else last
        flavor, chosen = best
        choice: FlavorChoice | None = None
        for resource, fit in zip(names, chosen, strict=True):
            # Most fits of a flavor are equal, and so are their choices.
            if choice is None or fit[:2] != (choice.mode, choice.borrow_level):
                choice = FlavorChoice(flavor, fit.mode, fit.borrow_level, stop)
            group.choices[resource] = choice
        return True

    def _try(
        self, group: RoleGroup, numbered: tuple[int, ResourceGroup], names: list[ResourceName], name: str
    ) -> tuple[FlavorRank, list[Fit], FlavorTry]:
        """One flavor for all resources of a resource group, in the order of their names."""
        number, flavor = numbered[0], self._flavors.get(name)
        why = self._find_mismatch(group, flavor, numbered[1])
        if flavor is None or why is not None:
            refusal = _refuse_mismatch(name, why or Mismatch.MISSING)
            return WORST, [], FlavorTry(name, AssignmentMode.NO_FIT, 0, refusal, (refusal,), number)
        amounts, preference = self._demand(group, flavor), self._queue.fungibility.preference
        rank, highest = BEST, 0
        fits: list[Fit] = []
        refusals: list[Refusal] = []
        for resource in names:
            if self._replaced and self._replaces_other_flavor(group, resource, name):
                refusals.append(_refuse_mismatch(name, Mismatch.REPLACED, resource))
                rank = WORST
            key = FlavorResource(name, resource)
            fit = self._terms.compute_fit(key, self._usage.get(key, 0), amounts.get(resource, 0))
            fits.append(fit)
            if fit is FREE:
                continue
            if fit.refusal is not None:
                refusals.append(fit.refusal)
            highest = max(highest, fit.borrow_level)
            one = FlavorRank(fit.mode, fit.borrow_level)
            if one != rank and is_preferred(rank, one, preference):
                rank = one
        gravest = max(refusals, key=lambda refusal: SEVERITY[refusal.reason], default=None)
        return rank, fits, FlavorTry(name, rank.mode, highest, gravest, tuple(refusals), number)

    def _charge_role(self, group: RoleGroup, role: Role) -> RoleAssignment:
        """Return the part of one role in the choices of its group, and count its usage from now on."""
        names = group.resources if len(group.roles) == 1 else requested_resources([role])
        own = {name: group.choices[name] for name in names if name in group.choices}
        if not names:
            # A role without requests still has to be placed with the other roles of its group.
            own = {name: c for name, c in group.choices.items() if self._flavors[c.flavor].placed}
        size, before = self._size[role.name], self._replaced.get(role.name)
        flavors = {choice.flavor: self._flavors[choice.flavor] for choice in own.values()}
        amounts = {name: self._amounts_of(role, flavor) for name, flavor in flavors.items()}
        usage: dict[FlavorResource, int] = {}
        for name, choice in own.items():
            amount = amounts[choice.flavor].get(name, 0)
            if before is not None:
                amount -= before.amounts.get(name, 0)
            usage[FlavorResource(choice.flavor, name)] = amount
        for key, amount in usage.items():
            self._usage[key] = self._usage.get(key, 0) + amount
        places = {name for name, flavor in flavors.items() if flavor.placed}
        torn = len(places) > 1
        refusal = (
            _refuse_everywhere(role, self._size, flavors=",".join(sorted(places))) if torn else group.refusal
        )
        return RoleAssignment(
            role=role.name,
            count=size,
            choices=own,
            usage=usage,
            tries=tuple(group.tries),
            refusal=refusal,
            spans_node_flavors=torn,
            node_flavor=group.node_flavor,
        )

    # Demand, and the flavors that may serve it

    def _amounts_of(self, role: Role, flavor: Flavor) -> Mapping[ResourceName, int]:
        """Return the charge of all tasks of a role in a flavor."""
        known = self._amounts.get((role.name, flavor.id))
        if known is None:
            size, each = self._size[role.name], compute_demand(role.request, flavor)
            known = {name: amount * size for name, amount in each.items()}
            self._amounts[role.name, flavor.id] = known
        return known

    def _demand(self, group: RoleGroup, flavor: Flavor) -> Mapping[ResourceName, int]:
        if len(group.roles) == 1 and not self._replaced:
            return self._amounts_of(group.roles[0], flavor)
        total: dict[ResourceName, int] = {}
        for role in group.roles:
            before = self._replaced.get(role.name)
            for name, amount in self._amounts_of(role, flavor).items():
                held = 0 if before is None else before.amounts.get(name, 0)
                total[name] = total.get(name, 0) + amount - held
        return total

    def _requests(self, group: RoleGroup, resource: ResourceName) -> bool:
        return any(
            compute_demand(r.request, NEUTRAL).get(resource, 0) * self._size[r.name] for r in group.roles
        )

    def _replaces_other_flavor(self, group: RoleGroup, resource: ResourceName, flavor: str) -> bool:
        held = (self._replaced.get(role.name) for role in group.roles)
        return any(before is not None and before.flavors.get(resource) != flavor for before in held)

    def _find_mismatch(
        self, group: RoleGroup, flavor: Flavor | None, resources: ResourceGroup
    ) -> Mismatch | None:
        if flavor is None:
            return Mismatch.MISSING
        for role in group.roles:
            found = find_mismatch(flavor, self._job, role, resources, mixed=self._mixed)
            if found is not None:
                return found
        return None

    def _find_resource_group(self, resource: ResourceName) -> tuple[int, ResourceGroup] | None:
        for number, group in enumerate(self._resource_groups):
            if not group.resources or resource in group.resources:
                return number, group
        return None

    # Refusals

    def _explain(
        self, group: RoleGroup, tries: list[FlavorTry], rank: FlavorRank | None, later: list[RoleGroup]
    ) -> None:
        """Set the refusal of a group to the least severe one among its flavors, for the whole job.

        Of two equal ones the flavor with the best mode decides, and then the earlier one.
        """
        mode = AssignmentMode.NO_FIT if rank is None else rank.mode
        closest = sorted(tries, key=lambda tried: tried.mode is not mode)
        lacks = [found for tried in closest if (found := self._find_refusal(tried, later)) is not None]
        refusal = min(lacks, key=lambda refusal: SEVERITY[refusal.reason], default=None)
        if refusal is None:
            refusal = _refuse_everywhere(group.roles[0], self._size)
        if group.refusal is None or SEVERITY[refusal.reason] > SEVERITY[group.refusal.reason]:
            group.refusal = refusal

    def _find_refusal(self, tried: FlavorTry, later: list[RoleGroup]) -> Refusal | None:
        """Return what one flavor lacks; None if it does not match, or lacks nothing."""
        if tried.refusal is None or tried.refusal.reason is Reason.NEVER_FITS:
            return None
        found = [self._explain_refusal(refusal, later) for refusal in tried.refusals]
        short = combine_shortages(found)
        return Refusal(short.reason, short.numbers, short.help)

    def _explain_refusal(self, refusal: Refusal, later: list[RoleGroup]) -> Shortage:
        key = FlavorResource(str(refusal.numbers["flavor"]), str(refusal.numbers["resource"]))
        bound, free = self._later_demand(key, later)
        more = RequestedAmounts(int(refusal.numbers["asked"]) + bound, free)
        return explain_shortage(self._snapshot.quota, self._queue, self._job, self._terms, key, more)

    def _later_demand(self, key: FlavorResource, later: list[RoleGroup]) -> tuple[int, int]:
        """Return the demand of later roles that have no other flavor, and that of those that have one."""
        bound, free = 0, 0
        for group in later:
            found = self._find_resource_group(key.resource)
            if found is None or not self._may_be_assigned(group, key.resource, key.flavor, found[1]):
                continue
            amount = self._demand(group, self._flavors[key.flavor]).get(key.resource, 0)
            others = (name for name in found[1].flavors if name != key.flavor)
            if any(self._may_be_assigned(group, key.resource, name, found[1]) for name in others):
                free += amount
            else:
                bound += amount
        return bound, free

    def _may_be_assigned(
        self, group: RoleGroup, resource: ResourceName, name: str, among: ResourceGroup
    ) -> bool:
        """Return whether a group may be assigned a flavor for a resource."""
        allowed = self._allowed is None or any(
            self._allowed(role.name, resource, name) for role in group.roles
        )
        suits = self._find_mismatch(group, self._flavors.get(name), among) is None
        return allowed and name in among.flavors and suits


def _refuse_mismatch(flavor: str, why: Mismatch, resource: ResourceName = "") -> Refusal:
    numbers: dict[str, int | str] = {"flavor": flavor, "why": why.value}
    if resource:
        numbers["resource"] = resource
    return Refusal(Reason.NEVER_FITS, numbers)


def _refuse_everywhere(role: Role, size: RoleCounts, **more: str) -> Refusal:
    return Refusal(Reason.NEVER_FITS, {"role": role.name, "asked": size[role.name], "available": 0, **more})
