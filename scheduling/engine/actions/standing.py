"""Reasons that do not depend on what is used now: they hold for every job, whether or not its turn came."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from scheduling.engine.model import (
    FlavorResource,
    Job,
    Outcome,
    OutcomeStatus,
    Queue,
    Role,
)
from scheduling.engine.placement.clusters import queue_clusters
from scheduling.engine.placement.feasibility import Dead, dead_flavors, never_fits_outcome
from scheduling.engine.placement.shape import resolve
from scheduling.engine.quota.charges import summed, task_charges, times
from scheduling.engine.quota.verdict import Shortage, beyond_ceiling, capped

if TYPE_CHECKING:
    from scheduling.engine.session import Session


def lasting_refusal(session: Session, queue: Queue, job: Job) -> Outcome | None:
    """NEVER_FITS or EXCEEDS_MAX_QUOTA, or None when the job could start some day.

    Each is worked out once for all jobs that ask for the same: one depends on nodes and flavors alone,
    the other on limits besides.
    """
    if not _simple(session, queue):
        return None
    flavors, own = _keys(session, queue, job)
    if flavors not in session.never:
        session.never[flavors] = never_fits_outcome(session.snapshot, session.tools.rule, queue, job)
    known = session.never[flavors]
    if known is None:
        if own not in session.beyond:
            session.beyond[own] = _beyond_limits(session, queue, job)
        known = session.beyond[own]
    return known if known is None or known.job == job.id else replace(known, job=job.id)


def dead_for(session: Session, queue: Queue, job: Job) -> Dead:
    """The roles of a job with the flavors of its queue in which they could never stand: none of what is said
    of a job that waits is about these. Nothing where resources come from several flavors."""
    if len(queue.flavors) < 2 or not _simple(session, queue):
        return frozenset()
    flavors, _ = _keys(session, queue, job)
    known = session.dead.get(flavors)
    if known is None:
        known = session.dead[flavors] = dead_flavors(session.snapshot, session.tools.rule, queue, job)
    return known


def is_worked_out(session: Session, queue: Queue, job: Job) -> bool:
    """Whether `lasting_refusal` knows the answer for such a job without looking at any node."""
    flavors, own = _keys(session, queue, job)
    return flavors in session.never and (session.never[flavors] is not None or own in session.beyond)


def _keys(session: Session, queue: Queue, job: Job) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...]]:
    asked = session.likes.asked_by(job)
    # At its cap a job has other limits than one that asks for the same.
    at_cap = capped(job, session.config.preemption.eviction_cap)
    return (queue.flavors, asked), (queue.id, asked, job.evictions if at_cap else -1)


def _beyond_limits(session: Session, queue: Queue, job: Job) -> Outcome | None:
    """What is beyond the limits in each cluster of the queue; a single role may look at all of them."""
    flavors = session.snapshot.flavors
    tried = queue_clusters(flavors, queue) if len(job.roles) > 1 else ()
    known = [name for name in queue.flavors if name in flavors]
    each = [[name for name in known if flavors[name].cluster == cluster] for cluster in tried] or [known]
    found = [_beyond_limits_of(session, queue, job, names) for names in each]
    return found[0] if all(found) else None


def _beyond_limits_of(session: Session, queue: Queue, job: Job, flavors: Sequence[str]) -> Outcome | None:
    own: dict[FlavorResource, int] = {}
    for role in job.roles:
        found = _ceiling_of_role(session, queue, job, role, own, flavors)
        if found is not None:
            return Outcome(
                job=job.id,
                status=OutcomeStatus.WAITING,
                reason=found.reason,
                numbers={**found.numbers, "role": role.name},
                help=found.help,
            )
    return None


def _ceiling_of_role(
    session: Session,
    queue: Queue,
    job: Job,
    role: Role,
    own: dict[FlavorResource, int],
    flavors: Sequence[str],
) -> Shortage | None:
    """None when the ceiling of one of those flavors holds the role on top of `own`, which it then joins."""
    first: Shortage | None = None
    dead = dead_for(session, queue, job)
    for flavor_id in flavors:
        flavor = session.snapshot.flavors.get(flavor_id)
        if flavor is None or (role.name, flavor_id) in dead:
            continue
        charges = times(task_charges(resolve(role.request, job.rules, flavor)), role.least)
        cap = session.config.preemption.eviction_cap
        found = beyond_ceiling(session.snapshot.quota, queue, job, charges, own, cap)
        if found is None:
            for key, amount in summed(charges).items():
                own[key] = own.get(key, 0) + amount
            return None
        first = first or found
    return first


def _simple(session: Session, queue: Queue) -> bool:
    """Whether all resources come from one flavor with nodes; of other queues the search itself tells."""
    known = (session.snapshot.flavors.get(name) for name in queue.flavors)
    return not queue.resource_groups and all(f.placed and not f.counted for f in known if f is not None)
