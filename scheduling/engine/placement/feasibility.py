"""Whether a job could ever start: the check behind NEVER_FITS, also used when a job is submitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduling.engine.model import (
    Flavor,
    GpuMode,
    Help,
    HelpCode,
    Job,
    Numbers,
    Outcome,
    OutcomeStatus,
    Queue,
    Reason,
    Role,
    TopologyMode,
    TopologyRule,
)
from scheduling.engine.model.labels import repels
from scheduling.engine.placement.capacity import PLENTY, empty_placer, most_when_empty
from scheduling.engine.placement.explain import (
    FLAVOR_TAINT,
    REFUSED,
    fewer_cards,
    free_cards,
    loosening,
    other_models,
    other_profiles,
    refusals,
    smaller_request,
)
from scheduling.engine.placement.index.clusters import CLUSTERS, queue_clusters
from scheduling.engine.placement.placer import PlacementRule
from scheduling.engine.state.shape import TaskShape, resolve
from scheduling.engine.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Offer:
    """What one flavor could give to one role if it were empty; `level` is of what its tasks have to stand in
    one domain."""

    flavor: Flavor
    task: TaskShape
    tolerated: bool
    most: int
    level: str = ""


def tolerates(job: Job, flavor: Flavor, role: Role | None = None) -> bool:
    """Whether the job, or one role of it by its own rules, accepts the flavor's own taints."""
    rules = job.rules if role is None else job.rules_of(role)
    return not repels(flavor.taints, tuple(rules.tolerations) + flavor.tolerations)


def offers(snapshot: Snapshot, rule: PlacementRule, queue: Queue, job: Job, role: Role) -> list[Offer]:
    """What each flavor of the queue could give at most, in the queue's order; unknown flavors nothing."""
    found = []
    for flavor_id in dict.fromkeys(name for group in queue.groups for name in group.flavors):
        flavor = snapshot.flavors.get(flavor_id)
        if flavor is None:
            continue
        task = resolve(role.request, job.rules_of(role), flavor)
        tolerated, most, together = tolerates(job, flavor, role), 0, _together(job, role)
        if tolerated:
            most = _most(snapshot, rule, task, flavor, together)
        found.append(Offer(flavor, task, tolerated, most, together[-1].level if together else ""))
    return found


def _most(
    snapshot: Snapshot, rule: PlacementRule, task: TaskShape, flavor: Flavor, together: Sequence[TopologyRule]
) -> int:
    if not flavor.placed:
        return PLENTY
    # Of a topology-aware flavor the search over its domains tells.
    return most_when_empty(snapshot.fleet, rule, task, flavor, () if flavor.topology_aware else together)


def _together(job: Job, role: Role) -> tuple[TopologyRule, ...]:
    """The levels of which all tasks of a role have to stand in one domain."""
    named = (rule for rule in (job.topology, role.topology) if rule is not None and rule.level)
    return tuple(rule for rule in named if rule.mode is TopologyMode.REQUIRED)


InfeasibleFlavors = frozenset[tuple[str, str]]
"""Roles and the flavors that would not hold their smallest size even if they were empty."""


def find_infeasible_flavors(
    snapshot: Snapshot, rule: PlacementRule, queue: Queue, job: Job
) -> InfeasibleFlavors | None:
    """In which flavors of the queue which roles of a job could never stand; None where no cluster has a
    flavor for each role, so that the job never fits."""
    given = {role.name: offers(snapshot, rule, queue, job, role) for role in job.roles}
    if not all(_holds(role, given[role.name]) for role in job.roles):
        return None
    tried = queue_clusters(snapshot.flavors, queue)
    if len(tried) > 1 and len(job.roles) > 1:
        held = (
            all(_holds(role, [o for o in given[role.name] if o.flavor.cluster == name]) for role in job.roles)
            for name in tried
        )
        if not any(held):
            return None
    return frozenset(
        (role.name, offer.flavor.id)
        for role in job.roles
        for offer in given[role.name]
        if offer.most < role.least
    )


def explain_never_fits(snapshot: Snapshot, rule: PlacementRule, queue: Queue, job: Job) -> Outcome | None:
    """The NEVER_FITS outcome of a job, or None when one cluster has a flavor that could hold each role."""
    given = {role.name: offers(snapshot, rule, queue, job, role) for role in job.roles}
    for role in job.roles:
        if not _holds(role, given[role.name]):
            return _never(snapshot, rule, job, role, given[role.name])
    tried = queue_clusters(snapshot.flavors, queue)
    if len(tried) < 2 or len(job.roles) < 2:
        return None
    best: tuple[Role, list[Offer]] | None = None
    for cluster in tried:
        within = {name: [o for o in found if o.flavor.cluster == cluster] for name, found in given.items()}
        lacking = [role for role in job.roles if not _holds(role, within[role.name])]
        if not lacking:
            return None
        best = best or (lacking[0], within[lacking[0].name])
    if best is None:
        return None
    outcome = _never(snapshot, rule, job, *best)
    return replace(outcome, numbers={**outcome.numbers, CLUSTERS: ",".join(tried)})


def _holds(role: Role, given: Sequence[Offer]) -> bool:
    return any(offer.most >= role.least for offer in given)


def _closeness(role: Role, offer: Offer) -> tuple[int, bool, bool, bool]:
    """How near a flavor comes to a role: by tasks, then by what keeps it off, the most fundamental last."""
    asked = role.request.gpu
    if asked is None:
        return (offer.most, offer.tolerated, True, True)
    same_kind = (asked.mode is GpuMode.MIG) == (offer.flavor.mode is GpuMode.MIG)
    same_model = not asked.models or offer.flavor.card_model in asked.models
    return (offer.most, offer.tolerated, same_kind, same_model)


def _never(snapshot: Snapshot, rule: PlacementRule, job: Job, role: Role, given: Sequence[Offer]) -> Outcome:
    # The flavor that comes closest is the one worth explaining; the queue's order breaks ties.
    closest = max(given, key=lambda offer: _closeness(role, offer), default=None)
    numbers, ways = _explained(snapshot, rule, role, closest)
    return Outcome(
        job=job.id, status=OutcomeStatus.WAITING, reason=Reason.NEVER_FITS, numbers=numbers, help=ways
    )


def _explained(
    snapshot: Snapshot, rule: PlacementRule, role: Role, offer: Offer | None
) -> tuple[Numbers, tuple[Help, ...]]:
    numbers: dict[str, int | str] = {"role": role.name, "asked": role.least, "available": 0, "limit": 0}
    if offer is None:
        return numbers, ()
    board = empty_placer(snapshot.fleet, rule).board(offer.task, offer.flavor)
    question = board.question
    numbers |= {"flavor": offer.flavor.id, "available": offer.most, "limit": offer.most}
    numbers |= free_cards(board)
    if not offer.tolerated:
        return numbers | {REFUSED + FLAVOR_TAINT: int(question.members.sum())}, ()
    numbers |= refusals(board)
    if offer.most:
        # Nodes could hold single tasks, but too few of them together.
        numbers |= {"together": offer.most, **({"level": offer.level} if offer.level else {})}
        return numbers, (Help(HelpCode.ASK_FEWER_TASKS, {"role": role.name, "tasks": offer.most}),)
    ways = (
        *loosening(question, board.vetoes),
        *fewer_cards(board),
        *smaller_request(question),
        *other_models(question),
        *other_profiles(question),
    )
    return numbers, ways
