"""This module explains why the volume claims of a job keep it from ever starting, in the empty cell too."""

from __future__ import annotations

from dataclasses import replace

from scheduling.engine.model import Help, HelpCode, Job, JobOutcome, Numbers, OutcomeStatus, Queue, Reason
from scheduling.engine.placement.capacity import empty_placer
from scheduling.engine.placement.explain import describe_volume_conflict
from scheduling.engine.placement.feasibility import explain_never_fits, find_infeasible_flavors, list_offers
from scheduling.engine.placement.index.clusters import CLUSTERS
from scheduling.engine.placement.index.volumes import CLAIM, EXCLUDED_NODES, SUITABLE_NODES, reason_of_claim
from scheduling.engine.placement.placer import PlacementRule
from scheduling.engine.state.snapshot import Snapshot


def explain_no_flavor(snapshot: Snapshot, rule: PlacementRule, queue: Queue, job: Job) -> JobOutcome | None:
    """Return the NEVER_FITS outcome of a job that no flavor could hold even if empty.

    If it could start but for its volume claims, the numbers name one of them.
    """
    if not any(job.rules_of(role).volume_claims for role in job.roles):
        return explain_never_fits(snapshot, rule, queue, job)
    without = _remove_claims(job)
    if find_infeasible_flavors(snapshot, rule, queue, without) is None:
        return explain_never_fits(snapshot, rule, queue, without)
    numbers = _find_conflict(snapshot, rule, queue, job)
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


def _find_conflict(snapshot: Snapshot, rule: PlacementRule, queue: Queue, job: Job) -> Numbers:
    """Return the numbers of the first flavor that excludes a role by its claims alone.

    One whose claims are bound is preferred: the job is nearest to a start there.
    """
    first: Numbers = {}
    for role in job.roles:
        for offer in list_offers(snapshot, rule, queue, job, role):
            if not offer.tolerated or offer.max_tasks >= role.min_count:
                continue
            board = empty_placer(snapshot.fleet, rule).get_board(offer.task, offer.flavor)
            conflict = describe_volume_conflict(
                board.question, board.vetoes, role.min_count - offer.max_tasks
            )
            numbers: dict[str, int | str] = {
                "flavor": offer.flavor.id,
                "role": role.name,
                "asked": role.min_count,
                "available": offer.max_tasks,
                **conflict,
            }
            if EXCLUDED_NODES in numbers:
                numbers[SUITABLE_NODES] = numbers.pop(EXCLUDED_NODES)
                return numbers
            first = first or (numbers if conflict else {})
    return first


def _remove_claims(job: Job) -> Job:
    roles = tuple(
        role if role.rules is None else replace(role, rules=replace(role.rules, volume_claims=()))
        for role in job.roles
    )
    return replace(job, roles=roles, rules=replace(job.rules, volume_claims=()))
