"""This module explains why the volume claims of a job keep it from ever starting, in the empty cell too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from scheduling.engine.model import (
    Help,
    HelpCode,
    Job,
    JobOutcome,
    Numbers,
    OutcomeStatus,
    Queue,
    Reason,
    Role,
)
from scheduling.engine.placement.capacity import empty_placer
from scheduling.engine.placement.explain import describe_volume_conflict
from scheduling.engine.placement.feasibility import (
    FlavorOffer,
    explain_never_fits,
    find_infeasible_flavors,
    list_offers,
)
from scheduling.engine.placement.index.clusters import CLUSTERS, queue_clusters
from scheduling.engine.placement.index.volumes import CLAIM, EXCLUDED_NODES, SUITABLE_NODES, reason_of_claim
from scheduling.engine.placement.placer import PlacementRule
from scheduling.engine.state.snapshot import Snapshot


def explain_no_flavor(snapshot: Snapshot, rule: PlacementRule, queue: Queue, job: Job) -> JobOutcome | None:
    """Return the NEVER_FITS outcome of a job that no flavor could hold even if empty.

    If it could start but for its volume claims, the numbers name one of them.
    """
    if not any(job.rules_of(role).volume_claims for role in job.roles):
        return explain_never_fits(snapshot, rule, queue, job)
    if find_infeasible_flavors(snapshot, rule, queue, job) is not None:
        return None
    without = _remove_claims(job)
    if find_infeasible_flavors(snapshot, rule, queue, without) is None:
        return explain_never_fits(snapshot, rule, queue, without)
    numbers = _find_conflict(snapshot, rule, queue, job, without)
    if not numbers:
        return explain_never_fits(snapshot, rule, queue, job)
    outcome = JobOutcome(job=job.id, status=OutcomeStatus.WAITING, reason=Reason.NEVER_FITS, numbers=numbers)
    if SUITABLE_NODES not in numbers:
        return outcome
    # Smaller sizes are tried before they are recommended.
    named = {"role": str(numbers["role"])}
    sizes = (
        Help(HelpCode.ASK_FEWER_CARDS, {**named, "cards": 1}),
        Help(HelpCode.ASK_FEWER_TASKS, {**named, "tasks": 1}),
    )
    return outcome._replace(help=sizes)


def name_claim_reason(outcome: JobOutcome) -> JobOutcome:
    """Return the outcome with the reason of the claim that its numbers name.

    Within a cycle it counts as NO_ROOM or NEVER_FITS, for which all actions know what helps.
    """
    if outcome.reason not in (Reason.NO_ROOM, Reason.NEVER_FITS) or CLAIM not in outcome.numbers:
        return outcome
    # The claim explains more than the clusters in which the roles do not fit together.
    numbers = {name: value for name, value in outcome.numbers.items() if name != CLUSTERS}
    return outcome._replace(reason=reason_of_claim(numbers), numbers=numbers)


_Offers = dict[str, list[tuple[FlavorOffer, FlavorOffer]]]
"""By role what each flavor offers to it with its claims, and without."""


def _find_conflict(snapshot: Snapshot, rule: PlacementRule, queue: Queue, job: Job, without: Job) -> Numbers:
    """Return the numbers of the first flavor that excludes a role by its claims alone.

    One whose claims are bound is preferred: the job is nearest to a start there.
    """
    offers: _Offers = {
        role.name: list(
            zip(
                list_offers(snapshot, rule, queue, job, role),
                list_offers(snapshot, rule, queue, without, free_role),
                strict=True,
            )
        )
        for role, free_role in zip(job.roles, without.roles, strict=True)
    }
    first: Numbers = {}
    for role, offer in _list_excluded(job, offers, queue_clusters(snapshot.flavors, queue)):
        board = empty_placer(snapshot.fleet, rule).get_board(offer.task, offer.flavor)
        conflict = describe_volume_conflict(board.question, board.vetoes, role.min_count - offer.max_tasks)
        numbers: dict[str, int | str] = {
            "flavor": offer.flavor.id,
            "role": role.name,
            "asked": role.min_count,
            "available": offer.max_tasks,
            **({"level": offer.level} if offer.level and not offer.flavor.topology_aware else {}),
            **conflict,
        }
        if EXCLUDED_NODES in numbers:
            numbers[SUITABLE_NODES] = numbers.pop(EXCLUDED_NODES)
            return numbers
        first = first or (numbers if conflict else {})
    return first


def _list_excluded(job: Job, offers: _Offers, clusters: Sequence[str]) -> Iterator[tuple[Role, FlavorOffer]]:
    """Yield the roles that their claims keep from a cluster which could hold the job without claims, with the
    flavors of it that could hold them without."""
    # With one cluster, flavors without nodes of their own belong to it as well.
    for cluster in clusters if len(clusters) > 1 else (None,):
        within = {
            name: [both for both in found if cluster is None or both[0].flavor.cluster == cluster]
            for name, found in offers.items()
        }
        if not all(any(_holds(role, free) for _, free in within[role.name]) for role in job.roles):
            continue
        for role in job.roles:
            if not any(_holds(role, offer) for offer, _ in within[role.name]):
                yield from ((role, offer) for offer, free in within[role.name] if _holds(role, free))


def _holds(role: Role, offer: FlavorOffer) -> bool:
    return offer.max_tasks >= role.min_count


def _remove_claims(job: Job) -> Job:
    roles = tuple(
        role if role.rules is None else replace(role, rules=replace(role.rules, volume_claims=()))
        for role in job.roles
    )
    return replace(job, roles=roles, rules=replace(job.rules, volume_claims=()))
