"""This module evaluates for one pending job the gates behind the one that holds it up: room on nodes, and
preemption.

The decisions of the cycle are made before. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from foundation.core.quantities import Resource
from scheduling.engine.actions.admission.excluded_flavors import are_all_excluded, find_excluded_flavors
from scheduling.engine.actions.admission.nominated_job import NominatedJob
from scheduling.engine.actions.admission.nominator import EvaluationRequest, Nominator
from scheduling.engine.gang import RefusalCache
from scheduling.engine.model import Allocation, FlavorResource, Job, JobOutcome, Numbers, Queue, Reason
from scheduling.engine.preemption.candidates.policy import allows_any_victim
from scheduling.engine.preemption.trials.targets import Preemptor
from scheduling.engine.quota.assignment import AssignmentMode
from scheduling.engine.session.session import Session

# An amount of quota that no cell has.
_ENOUGH = 2**40
_BY_WEIGHT = (Resource.GPU_CARDS, Resource.GPU_CORES, Resource.GPU_MEMORY, Resource.CPU, Resource.MEMORY)


class PreemptionResult(StrEnum):
    """The result of the search for jobs that could be preempted for a pending job.

    `NEVER`: the rules of the queue exclude preemption. `BORROWS`: the job would borrow, and the rules exclude
    it for that. `NO_JOBS`: the rules allow none of the jobs that hold what is missing. `NOT_ENOUGH`: they
    allow jobs, and no set of them that the search found lets the job fit. `PROTECTED`: one would, after
    guaranteed run times. `POSSIBLE`: one does. `NOT_NEEDED`: the job fits without. `EXCLUDED`: limits, or
    headroom that the job owes after evictions, leave it no flavor.
    """

    NEVER = "never"
    BORROWS = "borrows"
    NO_JOBS = "no_jobs"
    NOT_ENOUGH = "not_enough"
    PROTECTED = "protected"
    POSSIBLE = "possible"
    NOT_NEEDED = "not_needed"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True)
class RoomGate:
    """The places that a job would have now with enough quota; without any, `reason` and `numbers` say why."""

    places: tuple[Allocation, ...] = ()
    reason: Reason | None = None
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionGate:
    """The jobs that could be preempted for a job: of its queue, and of other queues that borrow.

    `own_amount` and `other_amount` are what they hold of `key`, the quota that is missing, `short` how much
    of it is missing; None where quota suffices and only room is missing. `victims` are the jobs that would
    be preempted.
    """

    result: PreemptionResult
    key: FlavorResource | None = None
    short: int | None = None
    own_jobs: int = 0
    own_amount: int = 0
    other_jobs: int = 0
    other_amount: int = 0
    protected_jobs: int = 0
    victims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExamination:
    """The outcome of a pending job in a cycle, and its gates; None where they do not apply."""

    outcome: JobOutcome
    room: RoomGate | None = None
    preemption: PreemptionGate | None = None


def evaluate_gates(session: Session, outcome: JobOutcome) -> JobExamination:
    """Return the gates of a job that waits at the end of a cycle."""
    if outcome.reason is None or outcome.reason is Reason.NEVER_FITS:
        return JobExamination(outcome=outcome)
    job = session.get_job(outcome.job)
    queue = session.snapshot.queues[job.queue]
    room = _evaluate_room(session, queue, job)
    if outcome.reason is Reason.WAITING_FOR_PREEMPTED:
        return JobExamination(outcome=outcome, room=room)
    return JobExamination(outcome=outcome, room=room, preemption=_evaluate_preemption(session, queue, job))


def _evaluate_room(session: Session, queue: Queue, job: Job) -> RoomGate | None:
    """Place a job beside those that run or have just started, with quota that suffices in every flavor.

    The result is None if limits of the user or budgets refuse it all the same.
    """
    session.snapshot.select_view(future=False)
    denied = frozenset(session.allowances.find_refused_flavors(queue, job))
    request = EvaluationRequest(RefusalCache(), may_preempt=False, excluded_flavors=denied)
    flavors = {name for group in queue.effective_groups for name in group.flavors}
    raised = {FlavorResource(name, resource): _ENOUGH for name in flavors for resource in _named(job)}
    tree = session.snapshot.quota
    with tree.raised(queue.quota_node, raised), session.snapshot.statement() as statement:
        nominated = Nominator(session, may_preempt=False).evaluate_job(statement, queue, job, request)
        refusal = nominated.refusal
        if refusal is None:
            return RoomGate(places=nominated.placed)
        if refusal.reason is not Reason.NO_ROOM:
            return None
        return RoomGate(reason=refusal.reason, numbers=refusal.numbers)


def _named(job: Job) -> set[str]:
    """Return the resources that may count against quota for a job."""
    named = (item for role in job.roles for item in (*role.request.extended, *role.request.charged))
    return {*(resource.value for resource in Resource), *(item.resource for item in named)}


def _evaluate_preemption(session: Session, queue: Queue, job: Job) -> PreemptionGate | None:
    """Search for victims as the cycle does: as if everything that terminates were gone."""
    snapshot = session.snapshot
    snapshot.select_view(future=False)
    excluded = find_excluded_flavors(session, queue, job)
    if are_all_excluded(session, queue, excluded):
        return PreemptionGate(result=PreemptionResult.EXCLUDED)
    snapshot.select_view(future=snapshot.has_future)
    with snapshot.statement() as statement:
        request = EvaluationRequest(RefusalCache(), excluded_flavors=frozenset(excluded))
        nominated = Nominator(session, may_preempt=True).evaluate_job(statement, queue, job, request)
        found = (
            PreemptionGate(result=PreemptionResult.NOT_NEEDED)
            if nominated.fits
            else _describe_search(session, nominated)
        )
    snapshot.select_view(future=False)
    return found


def _describe_search(session: Session, nominated: NominatedJob) -> PreemptionGate | None:
    assignment, refusal, rules = nominated.assignment, nominated.refusal, nominated.queue.preemption
    numbers = {} if refusal is None else refusal.numbers
    if not allows_any_victim(rules.within_queue) and not allows_any_victim(rules.reclaim):
        return PreemptionGate(result=PreemptionResult.NEVER)
    if nominated.mode is AssignmentMode.NO_FIT:
        borrows = refusal is not None and refusal.reason in (
            Reason.WAITING_FOR_QUOTA,
            Reason.WAITING_FOR_BORROWED,
        )
        return PreemptionGate(result=PreemptionResult.BORROWS) if borrows else None
    contested = assignment.contested or frozenset(key for key, n in assignment.usage.items() if n)
    preemptor = Preemptor(
        job=nominated.job, queue=nominated.queue, usage=assignment.usage, contested=contested
    )
    survey = session.victims.list_candidates(preemptor)
    key = _heaviest(contested)
    own = [each for each in survey.candidates if each.queue == nominated.queue.id]
    others = [each for each in survey.candidates if each.queue != nominated.queue.id]
    until = numbers.get("until") if refusal is not None and refusal.reason is Reason.PROTECTED else None
    if nominated.targets:
        result = PreemptionResult.POSSIBLE
    elif until is not None:
        result = PreemptionResult.PROTECTED
    else:
        result = PreemptionResult.NOT_ENOUGH if survey.candidates else PreemptionResult.NO_JOBS
    about = key is not None and (numbers.get("flavor"), numbers.get("resource")) == (key.flavor, key.resource)
    lacks = about and bool(assignment.contested) and "asked" in numbers and "available" in numbers
    return PreemptionGate(
        result=result,
        key=key,
        short=int(numbers["asked"]) - int(numbers["available"]) if lacks else None,
        own_jobs=len(own),
        own_amount=sum(each.charges.get(key, 0) for each in own) if key else 0,
        other_jobs=len(others),
        other_amount=sum(each.charges.get(key, 0) for each in others) if key else 0,
        protected_jobs=survey.protected_jobs,
        victims=tuple(dict.fromkeys(target.job for target in nominated.targets)),
    )


def _heaviest(keys: Iterable[FlavorResource]) -> FlavorResource | None:
    """Return the quota by which people count: GPUs before CPU and memory."""
    order = {resource.value: place for place, resource in enumerate(_BY_WEIGHT)}
    return min(keys, key=lambda key: (order.get(key.resource, len(order)), key), default=None)
