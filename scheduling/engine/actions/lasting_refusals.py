"""Reasons that do not depend on what is used now: they hold for every job, whether or not its turn came."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from scheduling.engine.model import (
    Charge,
    Flavor,
    FlavorResource,
    Job,
    Outcome,
    OutcomeStatus,
    Queue,
    Role,
)
from scheduling.engine.placement.feasibility import (
    InfeasibleFlavors,
    explain_never_fits,
    find_infeasible_flavors,
)
from scheduling.engine.placement.index.clusters import queue_clusters
from scheduling.engine.quota.verdict import Shortage, beyond_ceiling, capped
from scheduling.engine.session.session import Session
from scheduling.engine.state.charges import summed, task_charges, times
from scheduling.engine.state.shape import resolve


def find_lasting_refusal(session: Session, queue: Queue, job: Job) -> Outcome | None:
    """NEVER_FITS or EXCEEDS_MAX_QUOTA, or None when the job could start some day.

    Each is worked out once for all jobs that ask for the same: one depends on nodes and flavors alone,
    the other on limits besides.
    """
    if not has_single_flavor_tasks(session, queue):
        return None
    flavors, own = _keys(session, queue, job)
    if flavors not in session.never_fitting:
        _judge(session, queue, job, flavors)
    known = session.never_fitting[flavors]
    if known is None:
        infeasible = infeasible_flavors_of(session, queue, job)
        if (*own, infeasible) not in session.beyond_limits:
            session.beyond_limits[*own, infeasible] = find_beyond_limits(session, queue, job, infeasible)
        known = session.beyond_limits[*own, infeasible]
    return known if known is None or known.job == job.id else replace(known, job=job.id)


def infeasible_flavors_of(session: Session, queue: Queue, job: Job) -> InfeasibleFlavors:
    """The roles of a job with the flavors of its queue in which they could never stand: none of what is said
    of a job that waits is about these. Nothing where resources come from several flavors."""
    if len(queue.flavors) < 2 or not has_single_flavor_tasks(session, queue):
        return frozenset()
    flavors, _ = _keys(session, queue, job)
    if flavors not in session.infeasible_flavors:
        _judge(session, queue, job, flavors)
    return session.infeasible_flavors[flavors]


def _judge(session: Session, queue: Queue, job: Job, flavors: tuple[Hashable, ...]) -> None:
    """Work out where a job could stand, and what it is told where that is nowhere."""
    snapshot, rule = session.snapshot, session.tools.rule
    dead = find_infeasible_flavors(snapshot, rule, queue, job)
    session.infeasible_flavors[flavors] = frozenset() if dead is None else dead
    session.never_fitting[flavors] = (
        None if dead is not None else explain_never_fits(snapshot, rule, queue, job)
    )


def is_lasting_refusal_known(session: Session, queue: Queue, job: Job) -> bool:
    """Whether `find_lasting_refusal` knows the answer for such a job without looking at any node."""
    flavors, own = _keys(session, queue, job)
    if flavors not in session.never_fitting:
        return False
    return (
        session.never_fitting[flavors] is not None
        or (*own, infeasible_flavors_of(session, queue, job)) in session.beyond_limits
    )


def _keys(session: Session, queue: Queue, job: Job) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...]]:
    asked = session.equivalence.request_class_of(job)
    # At its cap a job has other limits than one that asks for the same.
    at_cap = capped(job, session.config.preemption.eviction_cap)
    return (queue.flavors, asked), (queue.id, asked, job.evictions if at_cap else -1)


def find_beyond_limits(
    session: Session, queue: Queue, job: Job, infeasible: InfeasibleFlavors
) -> Outcome | None:
    """What is beyond the limits in each cluster of the queue; a single role may look at all of them."""
    flavors = session.snapshot.flavors
    tried = queue_clusters(flavors, queue) if len(job.roles) > 1 else ()
    known = [name for name in queue.flavors if name in flavors]
    each = [[name for name in known if flavors[name].cluster == cluster] for cluster in tried] or [known]
    # A cluster that could never hold one of the roles is none in which the job stays below its limits.
    alive = [
        names
        for names in each
        if all(any((role.name, name) not in infeasible for name in names) for role in job.roles)
    ]
    found = [_beyond_limits_of(session, queue, job, names, infeasible) for names in alive]
    return found[0] if found and all(found) else None


def _beyond_limits_of(
    session: Session, queue: Queue, job: Job, flavors: Sequence[str], dead: InfeasibleFlavors
) -> Outcome | None:
    own: dict[FlavorResource, int] = {}
    for place, role in enumerate(job.roles):
        living = [name for name in flavors if (role.name, name) not in dead]
        beyond = _flavor_of_role(session, queue, job, role, own, living)
        if beyond is None:
            continue
        # What is beyond the limit is told for all that would be asked of the flavor.
        rest = [later for later in job.roles[place:] if (later.name, beyond.id) not in dead]
        charges = [Charge(*key, amount) for key, amount in _charged(job, rest, beyond).items()]
        found = _beyond(session, queue, job, charges, own)
        assert found is not None  # noqa: S101 - less than that was beyond it
        return Outcome(
            job=job.id,
            status=OutcomeStatus.WAITING,
            reason=found.reason,
            numbers={**found.numbers, "role": role.name},
            help=found.help,
        )
    return None


def _flavor_of_role(
    session: Session,
    queue: Queue,
    job: Job,
    role: Role,
    own: dict[FlavorResource, int],
    flavors: Sequence[str],
) -> Flavor | None:
    """The first of those flavors, where the ceiling of none of them holds the role on top of `own`, which the
    role joins otherwise."""
    known = [found for name in flavors if (found := session.snapshot.flavors.get(name)) is not None]
    for flavor in known:
        charges = _charged(job, [role], flavor)
        if (
            _beyond(session, queue, job, [Charge(*key, amount) for key, amount in charges.items()], own)
            is None
        ):
            for key, amount in charges.items():
                own[key] = own.get(key, 0) + amount
            return None
    return known[0] if known else None


def _charged(job: Job, roles: Sequence[Role], flavor: Flavor) -> dict[FlavorResource, int]:
    """What the smallest size of some roles is charged in one flavor."""
    each = (times(task_charges(resolve(role.request, job.rules, flavor)), role.least) for role in roles)
    return summed(charge for charges in each for charge in charges)


def _beyond(
    session: Session, queue: Queue, job: Job, charges: Sequence[Charge], own: Mapping[FlavorResource, int]
) -> Shortage | None:
    cap = session.config.preemption.eviction_cap
    return beyond_ceiling(session.snapshot.quota, queue, job, charges, own, cap)


def has_single_flavor_tasks(session: Session, queue: Queue) -> bool:
    """Whether all resources come from one flavor with nodes; of other queues the search itself tells."""
    known = (session.snapshot.flavors.get(name) for name in queue.flavors)
    return not queue.resource_groups and all(f.takes_tasks for f in known if f is not None)
