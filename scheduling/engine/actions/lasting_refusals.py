"""This module finds reasons to wait that hold whatever the present usage, for every job of their kind."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import product

from scheduling.engine.model import Charge, Flavor, FlavorResource, Job, JobOutcome, Queue, Role
from scheduling.engine.placement.claim_refusals import explain_no_flavor
from scheduling.engine.placement.feasibility import InfeasibleFlavors, find_infeasible_flavors
from scheduling.engine.placement.index.clusters import queue_clusters
from scheduling.engine.quota.shortage import Shortage, find_excess, is_eviction_capped
from scheduling.engine.session.session import Session
from scheduling.engine.state.charges import compute_task_charges, multiply_charges, sum_charges
from scheduling.engine.state.task_shape import resolve_shape

# The most choices of flavors that are tried for the roles of a job.
MAX_CHOICES = 256


def find_lasting_refusal(session: Session, queue: Queue, job: Job) -> JobOutcome | None:
    """Return NEVER_FITS or EXCEEDS_MAX_QUOTA, or None if the job could start some day.

    Each is computed once for all jobs with equal requests: the first depends on nodes and flavors alone, the
    second on quota limits besides.
    """
    if not has_single_flavor_tasks(session, queue):
        return None
    flavors, own = _keys(session, queue, job)
    if flavors not in session.never_fitting:
        _compute_feasibility(session, queue, job, flavors)
    known = session.never_fitting[flavors]
    if known is None:
        infeasible = infeasible_flavors_of(session, queue, job)
        if (*own, infeasible) not in session.beyond_limits:
            session.beyond_limits[*own, infeasible] = find_beyond_limits(session, queue, job, infeasible)
        known = session.beyond_limits[*own, infeasible]
    return known if known is None or known.job == job.id else known._replace(job=job.id)


def infeasible_flavors_of(session: Session, queue: Queue, job: Job) -> InfeasibleFlavors:
    """Return the roles of a job with the flavors of its queue whose nodes could never hold them.

    No refusal is reported about these flavors. The result is empty where resources come from several flavors.
    """
    if len(queue.flavors) < 2 or not has_single_flavor_tasks(session, queue):
        return frozenset()
    flavors, _ = _keys(session, queue, job)
    if flavors not in session.infeasible_flavors:
        _compute_feasibility(session, queue, job, flavors)
    return session.infeasible_flavors[flavors]


def _compute_feasibility(session: Session, queue: Queue, job: Job, flavors: tuple[Hashable, ...]) -> None:
    """Compute on which flavors a job could run, and its outcome if there is none."""
    snapshot, rule = session.snapshot, session.tools.rule
    dead = find_infeasible_flavors(snapshot, rule, queue, job)
    session.infeasible_flavors[flavors] = frozenset() if dead is None else dead
    session.never_fitting[flavors] = (
        None if dead is not None else explain_no_flavor(snapshot, rule, queue, job)
    )


def is_lasting_refusal_known(session: Session, queue: Queue, job: Job) -> bool:
    """Return whether `find_lasting_refusal` has a cached result, so that it examines no node."""
    flavors, own = _keys(session, queue, job)
    if flavors not in session.never_fitting:
        return False
    return (
        session.never_fitting[flavors] is not None
        or (*own, infeasible_flavors_of(session, queue, job)) in session.beyond_limits
    )


def _keys(session: Session, queue: Queue, job: Job) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...]]:
    asked = session.equivalence.request_class_of(job)
    # A job at its eviction cap has other limits than one with the same request.
    at_cap = is_eviction_capped(job, session.config.preemption.eviction_cap)
    return (queue.flavors, asked), (queue.id, asked, job.evictions if at_cap else -1)


def find_beyond_limits(
    session: Session, queue: Queue, job: Job, infeasible: InfeasibleFlavors
) -> JobOutcome | None:
    """Return what exceeds the quota limits in each cluster of the queue; one role may use all clusters."""
    flavors = session.snapshot.flavors
    tried = queue_clusters(flavors, queue) if len(job.roles) > 1 else ()
    known = [name for name in queue.flavors if name in flavors]
    each = [[name for name in known if flavors[name].cluster == cluster] for cluster in tried] or [known]
    # Only clusters that could hold every role count.
    alive = [
        names
        for names in each
        if all(any((role.name, name) not in infeasible for name in names) for role in job.roles)
    ]
    found = [_beyond_limits_of(session, queue, job, names, infeasible) for names in alive]
    return found[0] if found and all(found) else None


def _beyond_limits_of(
    session: Session, queue: Queue, job: Job, flavors: Sequence[str], dead: InfeasibleFlavors
) -> JobOutcome | None:
    own: dict[FlavorResource, int] = {}
    feasible = [[name for name in flavors if (role.name, name) not in dead] for role in job.roles]
    for place, role in enumerate(job.roles):
        beyond = _flavor_beyond_ceiling(session, queue, job, role, own, feasible[place])
        if beyond is None:
            continue
        # Another role may have taken the flavor that this one needs.
        reassigns = bool(own) and session.config.no_room.try_other_flavors
        if reassigns and _may_fit_ceilings(session, queue, job, feasible):
            return None
        # The refusal states the sum of all that would be asked of the flavor.
        rest = [later for later in job.roles[place:] if (later.name, beyond.id) not in dead]
        charges = [Charge(*key, amount) for key, amount in _smallest_charges(job, rest, beyond).items()]
        found = _shortage_beyond_ceiling(session, queue, job, charges, own)
        assert found is not None  # noqa: S101 - less than that was beyond it
        return JobOutcome.waiting(job.id, found.reason, {**found.numbers, "role": role.name}, *found.help)
    return None


def _flavor_beyond_ceiling(
    session: Session,
    queue: Queue,
    job: Job,
    role: Role,
    own: dict[FlavorResource, int],
    flavors: Sequence[str],
) -> Flavor | None:
    """Return the first of the flavors if the role exceeds the ceiling of each of them, added to `own`;
    otherwise add the role to `own` and return None."""
    known = [found for name in flavors if (found := session.snapshot.flavors.get(name)) is not None]
    for flavor in known:
        charges = _smallest_charges(job, [role], flavor)
        if (
            _shortage_beyond_ceiling(
                session, queue, job, [Charge(*key, amount) for key, amount in charges.items()], own
            )
            is None
        ):
            for key, amount in charges.items():
                own[key] = own.get(key, 0) + amount
            return None
    return known[0] if known else None


def _may_fit_ceilings(session: Session, queue: Queue, job: Job, feasible: Sequence[Sequence[str]]) -> bool:
    """Return whether some choice of a feasible flavor for each role exceeds no ceiling.

    It is True as well if there are too many choices to try them all.
    """
    known = session.snapshot.flavors
    for count, choice in enumerate(product(*feasible), start=1):
        if count > MAX_CHOICES:
            return True
        each = (
            _smallest_charges(job, [role], known[name]) for role, name in zip(job.roles, choice, strict=True)
        )
        total = sum_charges(Charge(*key, amount) for usage in each for key, amount in usage.items())
        charges = [Charge(*key, amount) for key, amount in total.items()]
        if _shortage_beyond_ceiling(session, queue, job, charges, {}) is None:
            return True
    return False


def _smallest_charges(job: Job, roles: Sequence[Role], flavor: Flavor) -> dict[FlavorResource, int]:
    """Return what the smallest size of some roles is charged in one flavor."""
    each = (
        multiply_charges(compute_task_charges(resolve_shape(role.request, job.rules, flavor)), role.min_count)
        for role in roles
    )
    return sum_charges(charge for charges in each for charge in charges)


def _shortage_beyond_ceiling(
    session: Session, queue: Queue, job: Job, charges: Sequence[Charge], own: Mapping[FlavorResource, int]
) -> Shortage | None:
    cap = session.config.preemption.eviction_cap
    return find_excess(session.snapshot.quota, queue, job, charges, own, cap)


def has_single_flavor_tasks(session: Session, queue: Queue) -> bool:
    """Return whether all resources of a task come from one flavor with nodes; for other queues only the
    evaluation itself decides."""
    known = (session.snapshot.flavors.get(name) for name in queue.flavors)
    return not queue.resource_groups and all(f.takes_tasks for f in known if f is not None)
