"""Which flavors a job's roles get: the search over a queue's ordered flavors.

Source: Kueue's flavor assigner. Roles are served in order and what one is given counts against the next;
roles that are to stand together (`companions`) are served as one. Resources of one group come from one
flavor. The search over a group ends at a flavor that is good enough by the queue's fungibility, and
otherwise takes the best. A job is never spread over clusters (`in_one_cluster`).
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
    FlavorChoice,
    FlavorTry,
    Mode,
    Refusal,
    RoleAssignment,
)
from scheduling.engine.quota.clusters import Allowed, in_one_cluster
from scheduling.engine.quota.companions import NEUTRAL, Companions, companions, named
from scheduling.engine.quota.explain import Later, told
from scheduling.engine.quota.fit import Fit, Oracle, Terms, fixed_usage
from scheduling.engine.quota.flavors import Mismatch, mismatch
from scheduling.engine.quota.fungibility import BEST, WORST, Rank, goes_on, is_preferred
from scheduling.engine.quota.reduce import Counts, full_counts
from scheduling.engine.quota.verdict import Shortage, all_together, capped
from scheduling.engine.state.charges import compute_demand
from scheduling.engine.state.snapshot import Snapshot

Tried = Mapping[str, Mapping[ResourceName, int]]
"""By role and resource, the index at which an earlier search stopped (`Assignment.tried`)."""

_Found = tuple[str, list[Fit]]


@dataclass(frozen=True, slots=True)
class Replaced:
    """What a role of the job that is replaced holds: the new role stays in its flavors and is charged
    the difference only."""

    flavors: Mapping[ResourceName, str]
    amounts: Mapping[ResourceName, int]


def assign(
    snapshot: Snapshot,
    queue: Queue,
    job: Job,
    *,
    oracle: Oracle | None,
    fair: bool,
    counts: Counts | None = None,
    last_tried: Tried | None = None,
    replaced: Mapping[str, Replaced] | None = None,
    allowed: Allowed | None = None,
    eviction_cap: int | None = None,
    beside_preemptible: bool = False,
    beside_capped: bool = False,
) -> Assignment:
    """The flavors of each role in the snapshot as it stands; changes nothing.

    Args:
        oracle: the simulated preemption; None where nobody is to be asked to give way.
        fair: whether preemption goes by fair sharing.
        counts: the size to try, by role; the full size otherwise.
        last_tried: where earlier searches of this job stopped; they are taken up behind that.
        replaced: what is held by the job that this one replaces, by role.
        allowed: flavors to be looked at; all otherwise. One role of several companions is enough.
        eviction_cap: after how many evictions a job no longer borrows.
        beside_preemptible: a non-preemptible job is held to the nominal by its like alone.
        beside_capped: so is a job at its cap, by those that nobody can make give way.
    """
    alone = beside_capped and capped(job, eviction_cap) if job.preemptible else beside_preemptible
    fixed = fixed_usage(snapshot, queue, eviction_cap) if alone else None
    terms = Terms(
        snapshot.quota, queue, job, oracle=oracle, fair=fair, eviction_cap=eviction_cap, fixed=fixed
    )
    size = full_counts(job) if counts is None else counts

    def search(allowed: Allowed | None) -> Assignment:
        return _Search(snapshot, queue, job, terms, size, last_tried or {}, replaced or {}, allowed).run()

    return in_one_cluster(search, snapshot.flavors, queue, allowed)


class _Search:
    """One search. Holds what the roles served so far were given."""

    def __init__(
        self,
        snapshot: Snapshot,
        queue: Queue,
        job: Job,
        terms: Terms,
        size: Counts,
        last_tried: Tried,
        replaced: Mapping[str, Replaced],
        allowed: Allowed | None,
    ) -> None:
        self._snapshot, self._queue, self._job, self._terms = snapshot, queue, job, terms
        self._size, self._last_tried, self._replaced, self._allowed = size, last_tried, replaced, allowed
        self._usage: dict[FlavorResource, int] = {}
        self._demands: dict[tuple[str, str], Mapping[ResourceName, int]] = {}
        self._flavors = snapshot.flavors
        self._resource_groups = queue.groups
        kinds = {
            self._flavors[name].placed
            for group in self._resource_groups
            for name in group.flavors
            if name in self._flavors
        }
        self._mixed = len(kinds) > 1

    def run(self) -> Assignment:
        done: list[RoleAssignment] = []
        groups = companions(self._job.roles)
        for position, group in enumerate(groups):
            if group.names:
                self._serve(group, groups[position + 1 :])
            else:
                self._find_place(group, done)
            done.extend(self._assigned(group, role) for role in group.roles)
            if group.failed:
                break
        return Assignment(roles=tuple(done), usage=self._usage)

    def _serve(self, group: Companions, later: list[Companions]) -> None:
        for resource in group.names:
            if resource in group.choices:
                continue
            found = self._resource_group(resource)
            if found is None:
                if self._asks_for(group, resource):
                    group.refusal = _nowhere(group.roles[0], self._size, resource=resource)
                    break
                continue
            if not self._search_group(group, *found, resource, later):
                break
        else:
            return
        group.failed = True
        group.choices = {}

    def _find_place(self, group: Companions, done: list[RoleAssignment]) -> None:
        """Give roles that ask for nothing the first flavor with nodes that they may look at, in the cluster
        of the roles before them."""
        named = dict.fromkeys(name for each in self._resource_groups for name in each.flavors)
        known = [flavor for name in named if (flavor := self._flavors.get(name)) is not None]
        seated = [f for f in known if f.takes_tasks]
        clusters = clusters_of(self._flavors, (name for role in done for name in role.flavors))
        for flavor in seated:
            here = not clusters or flavor.cluster in clusters
            if here and all(self._may_stand(role, flavor) for role in group.roles):
                group.place = flavor.id
                return
        if seated and any(self._size[role.name] for role in group.roles):
            group.refusal = _nowhere(group.roles[0], self._size)
            group.failed = True

    def _may_stand(self, role: Role, flavor: Flavor) -> bool:
        return self._allowed is None or self._allowed(role.name, "", flavor.id)

    def _search_group(
        self,
        group: Companions,
        number: int,
        resources: ResourceGroup,
        first: ResourceName,
        later: list[Companions],
    ) -> bool:
        """Give the group's roles a flavor of one resource group; False where none would do."""
        covered = resources.resources
        names = [name for name in group.names if not covered or name in covered]
        best: _Found | None = None
        best_rank, last, before = WORST, -1, len(group.tries)
        for index in range(self._start(group, first, resources), len(resources.flavors)):
            last, name = index, resources.flavors[index]
            if self._allowed is not None and not any(
                self._allowed(role.name, first, name) for role in group.roles
            ):
                continue
            rank, fits, tried = self._try(group, (number, resources), names, name)
            group.tries.append(tried)
            if not goes_on(rank, self._queue.fungibility):
                best, best_rank = (name, fits), rank
                break
            if is_preferred(rank, best_rank, self._queue.fungibility.preference):
                best, best_rank = (name, fits), rank
        if best_rank.mode is not Mode.FIT:
            self._explain(group, group.tries[before:], None if best is None else best_rank, later)
        if best is None:
            return False
        stop = -1 if last == len(resources.flavors) - 1 else last
        flavor, chosen = best
        for resource, fit in zip(names, chosen, strict=True):
            group.choices[resource] = FlavorChoice(flavor, fit.mode, fit.borrow_level, stop)
        return True

    def _try(
        self, group: Companions, numbered: tuple[int, ResourceGroup], names: list[ResourceName], name: str
    ) -> tuple[Rank, list[Fit], FlavorTry]:
        """One flavor for all resources of a resource group, in the order of their names."""
        number, flavor = numbered[0], self._flavors.get(name)
        why = self._mismatch(group, flavor, numbered[1])
        if flavor is None or why is not None:
            refusal = _unsuited(name, why or Mismatch.MISSING)
            return WORST, [], FlavorTry(name, Mode.NO_FIT, 0, refusal, (refusal,), number)
        amounts, preference = self._demand(group, flavor), self._queue.fungibility.preference
        rank, highest = BEST, 0
        fits: list[Fit] = []
        refusals: list[Refusal] = []
        for resource in names:
            if self._replaced and self._stands_elsewhere(group, resource, name):
                refusals.append(_unsuited(name, Mismatch.REPLACED, resource))
                rank = WORST
            key = FlavorResource(name, resource)
            fit = self._terms.fit(key, self._usage.get(key, 0), amounts.get(resource, 0))
            if fit.refusal is not None:
                refusals.append(fit.refusal)
            highest = max(highest, fit.borrow_level)
            one = Rank(fit.mode, fit.borrow_level)
            if one != rank and is_preferred(rank, one, preference):
                rank = one
            fits.append(fit)
        gravest = max(refusals, key=lambda refusal: SEVERITY[refusal.reason], default=None)
        return rank, fits, FlavorTry(name, rank.mode, highest, gravest, tuple(refusals), number)

    def _assigned(self, group: Companions, role: Role) -> RoleAssignment:
        """A role's part of what its group was given, which it is charged from now on."""
        names = group.names if len(group.roles) == 1 else named([role])
        own = {name: group.choices[name] for name in names if name in group.choices}
        if not names:
            # It asks for nothing, and still has to stand where its companions do.
            own = {name: c for name, c in group.choices.items() if self._flavors[c.flavor].placed}
        size, before = self._size[role.name], self._replaced.get(role.name)
        flavors = {choice.flavor: self._flavors[choice.flavor] for choice in own.values()}
        amounts = {name: self._demand_of(role, flavor) for name, flavor in flavors.items()}
        usage: dict[FlavorResource, int] = {}
        for name, choice in own.items():
            key = FlavorResource(choice.flavor, name)
            held = 0 if before is None else before.amounts.get(name, 0)
            amount = amounts[choice.flavor].get(name, 0) * size - held
            usage[key] = amount
            self._usage[key] = self._usage.get(key, 0) + amount
        places = {name for name, flavor in flavors.items() if flavor.placed}
        torn = len(places) > 1
        refusal = _nowhere(role, self._size, flavors=",".join(sorted(places))) if torn else group.refusal
        return RoleAssignment(
            role=role.name,
            count=size,
            choices=own,
            usage=usage,
            tries=tuple(group.tries),
            refusal=refusal,
            torn=torn,
            place=group.place,
        )

    # What a flavor is asked for, and whether it may be

    def _demand_of(self, role: Role, flavor: Flavor) -> Mapping[ResourceName, int]:
        """Return the charge of one task of a role in a flavor."""
        known = self._demands.get((role.name, flavor.id))
        if known is None:
            known = self._demands[role.name, flavor.id] = compute_demand(role.request, flavor)
        return known

    def _demand(self, group: Companions, flavor: Flavor) -> dict[ResourceName, int]:
        total: dict[ResourceName, int] = {}
        for role in group.roles:
            count, before = self._size[role.name], self._replaced.get(role.name)
            for name, each in self._demand_of(role, flavor).items():
                held = 0 if before is None else before.amounts.get(name, 0)
                total[name] = total.get(name, 0) + each * count - held
        return total

    def _asks_for(self, group: Companions, resource: ResourceName) -> bool:
        return any(
            compute_demand(r.request, NEUTRAL).get(resource, 0) * self._size[r.name] for r in group.roles
        )

    def _stands_elsewhere(self, group: Companions, resource: ResourceName, flavor: str) -> bool:
        held = (self._replaced.get(role.name) for role in group.roles)
        return any(before is not None and before.flavors.get(resource) != flavor for before in held)

    def _mismatch(
        self, group: Companions, flavor: Flavor | None, resources: ResourceGroup
    ) -> Mismatch | None:
        if flavor is None:
            return Mismatch.MISSING
        for role in group.roles:
            found = mismatch(flavor, self._job, role, resources, mixed=self._mixed)
            if found is not None:
                return found
        return None

    def _resource_group(self, resource: ResourceName) -> tuple[int, ResourceGroup] | None:
        for number, group in enumerate(self._resource_groups):
            if not group.resources or resource in group.resources:
                return number, group
        return None

    def _start(self, group: Companions, resource: ResourceName, resources: ResourceGroup) -> int:
        """Behind the last try; at the beginning where the queue has become shorter since."""
        start = self._last_tried.get(group.roles[0].name, {}).get(resource, -1) + 1
        return start if start < len(resources.flavors) else 0

    # What is told

    def _explain(
        self, group: Companions, tries: list[FlavorTry], rank: Rank | None, later: list[Companions]
    ) -> None:
        """Tell of the flavor that lacks least what it lacks for the whole job; of two equal ones that which
        came closest, and then the earlier."""
        mode = Mode.NO_FIT if rank is None else rank.mode
        closest = sorted(tries, key=lambda tried: tried.mode is not mode)
        lacks = [found for tried in closest if (found := self._lacking(tried, later)) is not None]
        refusal = min(lacks, key=lambda refusal: SEVERITY[refusal.reason], default=None)
        if refusal is None:
            refusal = _nowhere(group.roles[0], self._size)
        if group.refusal is None or SEVERITY[refusal.reason] > SEVERITY[group.refusal.reason]:
            group.refusal = refusal

    def _lacking(self, tried: FlavorTry, later: list[Companions]) -> Refusal | None:
        """What one flavor lacks; None where it does not suit, or lacks nothing."""
        if tried.refusal is None or tried.refusal.reason is Reason.NEVER_FITS:
            return None
        found = [self._told(refusal, later) for refusal in tried.refusals]
        short = all_together(found)
        return Refusal(short.reason, short.numbers, short.help)

    def _told(self, refusal: Refusal, later: list[Companions]) -> Shortage:
        key = FlavorResource(str(refusal.numbers["flavor"]), str(refusal.numbers["resource"]))
        bound, free = self._asked_later(key, later)
        more = Later(int(refusal.numbers["asked"]) + bound, free)
        return told(self._snapshot.quota, self._queue, self._job, self._terms, key, more)

    def _asked_later(self, key: FlavorResource, later: list[Companions]) -> tuple[int, int]:
        """What later roles ask for that have no other flavor, and what the others could ask for."""
        bound, free = 0, 0
        for group in later:
            found = self._resource_group(key.resource)
            if found is None or not self._may_get(group, key.resource, key.flavor, found[1]):
                continue
            amount = self._demand(group, self._flavors[key.flavor]).get(key.resource, 0)
            others = (name for name in found[1].flavors if name != key.flavor)
            if any(self._may_get(group, key.resource, name, found[1]) for name in others):
                free += amount
            else:
                bound += amount
        return bound, free

    def _may_get(self, group: Companions, resource: ResourceName, name: str, among: ResourceGroup) -> bool:
        """Whether roles may look at a flavor for a resource."""
        allowed = self._allowed is None or any(
            self._allowed(role.name, resource, name) for role in group.roles
        )
        suits = self._mismatch(group, self._flavors.get(name), among) is None
        return allowed and name in among.flavors and suits


def _unsuited(flavor: str, why: Mismatch, resource: ResourceName = "") -> Refusal:
    numbers: dict[str, int | str] = {"flavor": flavor, "why": why.value}
    if resource:
        numbers["resource"] = resource
    return Refusal(Reason.NEVER_FITS, numbers)


def _nowhere(role: Role, size: Counts, **more: str) -> Refusal:
    return Refusal(Reason.NEVER_FITS, {"role": role.name, "asked": size[role.name], "available": 0, **more})
