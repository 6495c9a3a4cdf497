"""This module decides whether a job could ever start (NEVER_FITS), also when a job is submitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.engine.model import (
    Flavor,
    GpuMode,
    Help,
    HelpCode,
    Job,
    JobOutcome,
    Numbers,
    Queue,
    Reason,
    Role,
    TopologyMode,
)
from scheduling.engine.model.labels import has_untolerated_taint
from scheduling.engine.placement.capacity import UNBOUNDED, count_when_empty, empty_placer
from scheduling.engine.placement.explain import (
    FLAVOR_TAINT,
    REFUSED,
    count_refused_nodes,
    describe_free_cards,
    suggest_fewer_cards,
    suggest_loosening,
    suggest_other_models,
    suggest_other_profiles,
    suggest_smaller_request,
)
from scheduling.engine.placement.index.clusters import CLUSTERS, queue_clusters
from scheduling.engine.placement.index.volumes import remove_temporary_claims
from scheduling.engine.placement.placer import PlacementRule
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.task_shape import TaskShape, resolve_shape


@dataclass(frozen=True, slots=True)
class FlavorOffer:
    """The most tasks of one role that a flavor could hold if it were empty; `level` is the topology level of
    which they must share one domain."""

    flavor: Flavor
    task: TaskShape
    tolerated: bool
    max_tasks: int
    level: str = ""


def tolerates_flavor(job: Job, flavor: Flavor, role: Role | None = None) -> bool:
    """Return whether the job, or one role of it by its own rules, tolerates the flavor's own taints."""
    rules = job.rules if role is None else job.rules_of(role)
    return not has_untolerated_taint(flavor.taints, tuple(rules.tolerations) + flavor.tolerations)


def list_offers(
    snapshot: Snapshot, rule: PlacementRule, queue: Queue, job: Job, role: Role
) -> list[FlavorOffer]:
    """Return the offer of each flavor of the queue, in the queue's order, without unknown flavors.

    Volumes that don't exist yet exclude no node: they do so only until they are created.
    """
    rules, found = remove_temporary_claims(job.rules_of(role)), []
    for flavor_id in dict.fromkeys(name for group in queue.effective_groups for name in group.flavors):
        flavor = snapshot.flavors.get(flavor_id)
        if flavor is None:
            continue
        task = resolve_shape(role.request, rules, flavor)
        tolerated, most, level = tolerates_flavor(job, flavor, role), 0, _required_level(job)
        if tolerated:
            most = _max_tasks(snapshot, rule, task, flavor, level)
        found.append(FlavorOffer(flavor, task, tolerated, most, level))
    return found


def _max_tasks(snapshot: Snapshot, rule: PlacementRule, task: TaskShape, flavor: Flavor, level: str) -> int:
    if not flavor.placed:
        return UNBOUNDED
    # In a topology-aware flavor the search over its domains decides.
    return count_when_empty(snapshot.fleet, rule, task, flavor, "" if flavor.topology_aware else level)


def _required_level(job: Job) -> str:
    """Return the topology level of which all tasks of a job must share one domain, or nothing."""
    rule = job.topology
    return rule.level if rule is not None and rule.mode is TopologyMode.REQUIRED else ""


InfeasibleFlavors = frozenset[tuple[str, str]]
"""Roles and the flavors that would not hold their smallest size even if they were empty."""


def find_infeasible_flavors(
    snapshot: Snapshot, rule: PlacementRule, queue: Queue, job: Job
) -> InfeasibleFlavors | None:
    """Return the pairs of a role and a flavor of the queue that could never hold it.

    The result is None if no cluster has a flavor for each role, so that the job never fits.
    """
    offers_of_role = {role.name: list_offers(snapshot, rule, queue, job, role) for role in job.roles}
    if not all(_holds(role, offers_of_role[role.name]) for role in job.roles):
        return None
    tried = queue_clusters(snapshot.flavors, queue)
    if len(tried) > 1 and len(job.roles) > 1:
        held = (
            all(
                _holds(role, [o for o in offers_of_role[role.name] if o.flavor.cluster == name])
                for role in job.roles
            )
            for name in tried
        )
        if not any(held):
            return None
    return frozenset(
        (role.name, offer.flavor.id)
        for role in job.roles
        for offer in offers_of_role[role.name]
        if offer.max_tasks < role.min_count
    )


def explain_never_fits(snapshot: Snapshot, rule: PlacementRule, queue: Queue, job: Job) -> JobOutcome | None:
    """Return the NEVER_FITS outcome of a job, or None if one cluster could hold each role."""
    offers_of_role = {role.name: list_offers(snapshot, rule, queue, job, role) for role in job.roles}
    for role in job.roles:
        if not _holds(role, offers_of_role[role.name]):
            return _outcome_never_fits(snapshot, rule, job, role, offers_of_role[role.name])
    tried = queue_clusters(snapshot.flavors, queue)
    if len(tried) < 2 or len(job.roles) < 2:
        return None
    best: tuple[Role, list[FlavorOffer]] | None = None
    for cluster in tried:
        within = {
            name: [o for o in found if o.flavor.cluster == cluster] for name, found in offers_of_role.items()
        }
        lacking = [role for role in job.roles if not _holds(role, within[role.name])]
        if not lacking:
            return None
        best = best or (lacking[0], within[lacking[0].name])
    if best is None:
        return None
    outcome = _outcome_never_fits(snapshot, rule, job, *best)
    return outcome._replace(numbers={**outcome.numbers, CLUSTERS: ",".join(tried)})


def _holds(role: Role, offers_of_role: Sequence[FlavorOffer]) -> bool:
    return any(offer.max_tasks >= role.min_count for offer in offers_of_role)


def _closeness(role: Role, offer: FlavorOffer) -> tuple[int, bool, bool, bool]:
    """Return how near a flavor comes to a role: by tasks, then by what excludes it, lasting causes last."""
    asked = role.request.gpu
    if asked is None:
        return (offer.max_tasks, offer.tolerated, True, True)
    same_kind = (asked.mode is GpuMode.MIG) == (offer.flavor.mode is GpuMode.MIG)
    same_model = not asked.models or offer.flavor.card_model in asked.models
    return (offer.max_tasks, offer.tolerated, same_kind, same_model)


def _outcome_never_fits(
    snapshot: Snapshot, rule: PlacementRule, job: Job, role: Role, offers_of_role: Sequence[FlavorOffer]
) -> JobOutcome:
    # The closest flavor is explained; the queue's order breaks ties.
    closest = max(offers_of_role, key=lambda offer: _closeness(role, offer), default=None)
    numbers, ways = _explain_offer(snapshot, rule, role, closest)
    return JobOutcome.waiting(job.id, Reason.NEVER_FITS, numbers, *ways)


def _explain_offer(
    snapshot: Snapshot, rule: PlacementRule, role: Role, offer: FlavorOffer | None
) -> tuple[Numbers, tuple[Help, ...]]:
    numbers: dict[str, int | str] = {"role": role.name, "asked": role.min_count, "available": 0, "limit": 0}
    if offer is None:
        return numbers, ()
    board = empty_placer(snapshot.fleet, rule).get_board(offer.task, offer.flavor)
    question = board.question
    numbers |= {"flavor": offer.flavor.id, "available": offer.max_tasks, "limit": offer.max_tasks}
    numbers |= describe_free_cards(board)
    if not offer.tolerated:
        return numbers | {REFUSED + FLAVOR_TAINT: int(question.members.sum())}, ()
    numbers |= count_refused_nodes(board)
    if offer.max_tasks:
        # Nodes could hold single tasks, but too few of them together.
        numbers |= {"together": offer.max_tasks, **({"level": offer.level} if offer.level else {})}
        return numbers, (Help(HelpCode.ASK_FEWER_TASKS, {"role": role.name, "tasks": offer.max_tasks}),)
    ways = (
        *suggest_loosening(question, board.vetoes),
        *suggest_fewer_cards(board),
        *suggest_smaller_request(question),
        *suggest_other_models(question),
        *suggest_other_profiles(question),
    )
    return numbers, ways
