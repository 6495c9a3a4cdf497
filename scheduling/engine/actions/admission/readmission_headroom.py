"""This module makes jobs leave headroom when they borrow, so that the next owner needs no victims.

A job was evicted because an owner reclaimed quota. If next to nothing is unused, the next owner evicts it
once more, and its work is lost again. A job that was drained lately does not borrow at all: it would take at
once what it has just released. If preemption loses more of the cell's GPU time than its budget allows, all
borrowing jobs leave headroom.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from foundation.core.quantities import Resource
from quotas.tree import QuotaTree
from scheduling.engine.actions.admission.nominated_job import NominatedJob
from scheduling.engine.gang import smallest_gang
from scheduling.engine.model import FlavorResource, Help, HelpCode, Job, Queue, Reason
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.quota.shortage import expand_help, may_borrow
from scheduling.engine.session.session import FlavorUsage, Session
from scheduling.engine.state.charges import compute_job_demand

# Headroom is whole cards: less would keep a small cluster from being used in full.
CARD_UNITS: dict[str, int] = {Resource.GPU_CARDS: 1, Resource.GPU_CORES: 100}


@dataclass(frozen=True, slots=True)
class _QuotaGap:
    """A quota of which a job would leave too little unused, in units of the resource.

    It asks for `asked`, `keep` must stay unused, `unused` is unused now.
    """

    key: FlavorResource
    asked: int
    keep: int
    unused: int


# The rule by which a job waits, among the numbers of its refusal.
READMISSION_RULE, DRAINED_RULE, HEADROOM_RULE = "spare", "drained", "headroom"


def must_leave_headroom(session: Session, job: Job) -> bool:
    """Return whether a job may have to keep quota free when it borrows."""
    return bool(job.evictions or job.drained or headroom_permille(session))


def headroom_permille(session: Session) -> int:
    """Return how much of the tree's cards every borrowing job leaves unused, in thousandths.

    It is 0 while preemption has lost at most half of its budget, and rises from there.
    """
    options = session.config.preemption
    budget_ppm = 1000 * options.loss_budget_permille
    beyond_half = 2 * session.snapshot.lost_ppm - budget_ppm
    if not budget_ppm or beyond_half <= 0:
        return 0
    return min(options.loss_headroom_permille, options.loss_headroom_permille * beyond_half // budget_ppm)


def find_headroom_refusal(session: Session, nominated: NominatedJob, *, charged: bool) -> Refusal | None:
    """Return why a job must not borrow now, or None.

    `charged`: the snapshot's usage includes the job.
    """
    if not _is_subject(session, nominated.queue, nominated.job) or not nominated.assignment.borrow_level:
        return None
    return _find_gaps(session, nominated.queue, nominated.job, nominated.assignment.usage, charged=charged)


def find_flavors_without_headroom(session: Session, queue: Queue, job: Job) -> dict[str, Refusal]:
    """Return the refusals by flavor before an evaluation: even the job's smallest size would borrow and leave
    too little headroom there."""
    if not _is_subject(session, queue, job) or queue.resource_groups:
        return {}
    each = (
        (name, _find_gaps(session, queue, job, usage, charged=False, of=CARD_UNITS))
        for name, usage in _smallest_usages(session, queue, job)
    )
    return {name: refusal for name, refusal in each if refusal is not None}


def compute_headroom(session: Session, queue: Queue, job: Job, key: FlavorResource) -> int:
    """Return how much of a quota must stay unused in the whole tree when a job borrows of it, in its unit."""
    tree, card = session.snapshot.quota, CARD_UNITS.get(key.resource)
    owned = tree.subtree_quota(tree.root(queue.quota_node), key)
    if card is None or owned is None:
        return 0
    permille = session.config.preemption.readmission_headroom_permille * job.evictions + headroom_permille(
        session
    )
    return owned * permille // (1000 * card) * card


def _smallest_usages(session: Session, queue: Queue, job: Job) -> Sequence[tuple[str, FlavorUsage]]:
    """Return what the smallest size of a job is charged in each flavor of its queue."""
    if session.snapshot.jobs.get(job.id) is not job:
        # The usages of a hypothetical job are not cached.
        return _compute_smallest_usages(session, queue, job)
    key = (queue.id, session.equivalence.request_class_of(job))
    if key not in session.smallest_usages:
        session.smallest_usages[key] = _compute_smallest_usages(session, queue, job)
    return session.smallest_usages[key]


def _compute_smallest_usages(session: Session, queue: Queue, job: Job) -> list[tuple[str, FlavorUsage]]:
    counts, flavors = smallest_gang(job), map(session.snapshot.flavors.get, queue.flavors)
    return [(flavor.id, compute_job_demand(job, counts, flavor)) for flavor in flavors if flavor is not None]


def _is_subject(session: Session, queue: Queue, job: Job) -> bool:
    """Return whether the rule applies to a job. One that never borrows keeps to its queue's quota anyway."""
    options = session.config.preemption
    if job.drained:
        return True
    subject = bool(job.evictions and options.readmission_headroom_permille) or headroom_permille(session) > 0
    return subject and may_borrow(queue, job, options.eviction_cap)


def _find_gaps(
    session: Session,
    queue: Queue,
    job: Job,
    usage: FlavorUsage,
    *,
    charged: bool,
    of: Container[str] | None = None,
) -> Refusal | None:
    """Return the refusal for a usage that leaves too little headroom of these resources (`of`; None: all)."""
    tree, leaf = session.snapshot.quota, queue.quota_node
    root, gaps = tree.root(leaf), list[_QuotaGap]()
    for key, amount in usage.items():
        if not amount or (of is not None and key.resource not in of):
            continue
        owned, more = tree.subtree_quota(root, key), 0 if charged else amount
        if owned is None or not tree.borrows(leaf, key, more):
            continue
        if job.drained:
            return _refuse_drained(key, amount, job)
        keep = compute_headroom(session, queue, job, key)
        unused = owned - tree.usage(root, key) - more + amount
        # Without headroom the job may have victims like any borrower.
        if keep and unused - amount < keep:
            gaps.append(_QuotaGap(key, amount, keep, unused))
    if not gaps:
        return None
    lacks = {gap.key.resource: gap.asked + gap.keep - gap.unused for gap in gaps}
    raised = _borrowed_quota(tree, leaf, usage, charged=charged)
    if not charged:
        missing = _missing_quota(tree, leaf, usage)
        lacks, raised = _largest(lacks, missing), _largest(raised, missing)
    return _refuse_gaps(gaps[0], lacks, raised, queue, job)


def _borrowed_quota(
    tree: QuotaTree[FlavorResource], leaf: str, usage: FlavorUsage, *, charged: bool
) -> dict[str, int]:
    """Return, by resource, by how much the nominal quota must rise so that the job borrows nothing.

    All resources are named, also those of which a job leaves no headroom: a job with GPUs of its nominal
    quota and borrowed GPU memory would be evicted for the memory.
    """
    raised = {}
    for key, amount in usage.items():
        own, used = tree.subtree_quota(leaf, key), tree.usage(leaf, key) + (0 if charged else amount)
        if amount and own is not None and used > own:
            raised[key.resource] = used - own
    return raised


def _missing_quota(tree: QuotaTree[FlavorResource], leaf: str, usage: FlavorUsage) -> dict[str, int]:
    """Return, by resource, what must be released before quota admits the job at all."""
    found = ((key, amount, tree.available(leaf, key)) for key, amount in usage.items() if amount)
    return {key.resource: amount - had for key, amount, had in found if had is not None and had < amount}


def _refuse_gaps(
    first: _QuotaGap, lacks: Mapping[str, int], raised: Mapping[str, int], queue: Queue, job: Job
) -> Refusal:
    """Return the refusal for all gaps of one flavor, with the numbers of the first; `lacks` must be released,
    or the nominal quota be higher by `raised`."""
    where: dict[str, int | str] = {"flavor": first.key.flavor, "resource": first.key.resource}
    numbers: dict[str, int | str] = {
        **where,
        "rule": READMISSION_RULE if job.evictions else HEADROOM_RULE,
        "asked": first.asked,
        "available": max(0, first.unused - first.keep),
        "keep_free": first.keep,
        "unused": max(0, first.unused),
    }
    if job.evictions:
        numbers["evictions"] = job.evictions
    wait, more = (
        Help(HelpCode.WAIT_FOR_RELEASE, where),
        Help(HelpCode.RAISE_QUOTA, {"queue": queue.id, **where}),
    )
    ways = (*expand_help(wait, lacks), *expand_help(more, raised))
    return Refusal(Reason.WAITING_FOR_BORROWED, numbers, ways)


def _largest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in (*one, *other)}


def _refuse_drained(key: FlavorResource, asked: int, job: Job) -> Refusal:
    where: dict[str, int | str] = {"flavor": key.flavor, "resource": key.resource}
    numbers = {**where, "rule": DRAINED_RULE, "asked": asked}
    if job.drained_until is None:
        return Refusal(Reason.WAITING_FOR_BORROWED, numbers)
    at = int(-(-job.drained_until // 1))
    ways = (Help(HelpCode.WAIT_UNTIL, {"at": at}),)
    return Refusal(Reason.WAITING_FOR_BORROWED, {**numbers, "drained_until": at}, ways)
