"""Room that evicted jobs leave when they borrow again, so that the next who comes for his own needs nobody's.

A job that was evicted went because somebody came for what he owns. Where next to nothing is unused, the
next one who comes pushes it out once more: a third of what a job may be evicted is gone, and its work.
A job that was drained lately does not borrow at all: it would take at once what it has just given back.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from foundation.core.quantities import Resource
from quotas.tree import QuotaTree
from scheduling.engine.actions.admission.entry import Entry
from scheduling.engine.gang import smallest_gang
from scheduling.engine.model import FlavorResource, Help, HelpCode, Job, Queue, Reason
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.quota.verdict import for_each, may_borrow
from scheduling.engine.session.session import FlavorUsage, Session
from scheduling.engine.state.charges import asked_of

# Room is left in whole cards: less than one would keep a small cluster from being used in full.
CARD: dict[str, int] = {Resource.GPU_CARDS: 1, Resource.GPU_CORES: 100}


@dataclass(frozen=True, slots=True)
class _Gap:
    """A quota of which a job would leave too little unused: what it asks for, what is to stay unused and what
    is unused now. With a nominal higher by `raised` its queue would not have to borrow."""

    key: FlavorResource
    asked: int
    keep: int
    unused: int
    raised: int


# By which rule a job waits, among the numbers of its reason.
SPARE, DRAINED = "spare", "drained"


def too_little_spare(session: Session, entry: Entry, *, charged: bool) -> Refusal | None:
    """Why a job that was evicted must not borrow now; None where it may.

    `charged`: the snapshot's usage includes the job.
    """
    if not _counts(session, entry.queue, entry.job) or not entry.assignment.borrow_level:
        return None
    return _short(session, entry.queue, entry.job, entry.assignment.usage, charged=charged)


def short_of_spare(session: Session, queue: Queue, job: Job) -> dict[str, Refusal]:
    """The same before anything is tried, by flavor: where even its smallest size would have to borrow and
    leave too little."""
    if not _counts(session, queue, job) or queue.resource_groups:
        return {}
    each = (
        (name, _short(session, queue, job, usage, charged=False, of=CARD))
        for name, usage in _least(session, queue, job)
    )
    return {name: refusal for name, refusal in each if refusal is not None}


def kept_free(session: Session, queue: Queue, job: Job, key: FlavorResource) -> int:
    """How much of a quota must stay unused in the whole tree when a job borrows of it."""
    tree, card = session.snapshot.quota, CARD.get(key.resource)
    owned = tree.subtree_quota(tree.root(queue.quota_node), key)
    if card is None or owned is None:
        return 0
    return owned * session.config.preemption.spare_permille * job.evictions // (1000 * card) * card


def _least(session: Session, queue: Queue, job: Job) -> Sequence[tuple[str, FlavorUsage]]:
    """What the smallest size of a job is charged in each flavor of its queue."""
    if session.snapshot.jobs.get(job.id) is not job:
        # A job as it might be is not kept.
        return _worked_out(session, queue, job)
    key = (queue.id, session.equivalence.request_class_of(job))
    if key not in session.smallest_usages:
        session.smallest_usages[key] = _worked_out(session, queue, job)
    return session.smallest_usages[key]


def _worked_out(session: Session, queue: Queue, job: Job) -> list[tuple[str, FlavorUsage]]:
    counts, flavors = smallest_gang(job), map(session.snapshot.flavors.get, queue.flavors)
    return [(flavor.id, asked_of(job, counts, flavor)) for flavor in flavors if flavor is not None]


def _counts(session: Session, queue: Queue, job: Job) -> bool:
    """Whether the rule is about a job. One that does not borrow anyway keeps to what its queue owns."""
    options = session.config.preemption
    if job.drained:
        return True
    evicted = bool(job.evictions and options.spare_permille)
    return evicted and may_borrow(queue, job, options.eviction_cap)


def _short(
    session: Session,
    queue: Queue,
    job: Job,
    usage: FlavorUsage,
    *,
    charged: bool,
    of: Container[str] | None = None,
) -> Refusal | None:
    """`of`: only of these resources it matters whether the job borrows."""
    tree, leaf = session.snapshot.quota, queue.quota_node
    root, gaps = tree.root(leaf), list[_Gap]()
    for key, amount in usage.items():
        owned, more = tree.subtree_quota(root, key), 0 if charged else amount
        judged = of is None or key.resource in of
        if owned is None or not amount or not judged or not tree.borrows(leaf, key, more):
            continue
        if job.drained:
            return _drained(key, amount, job)
        keep = kept_free(session, queue, job, key)
        unused = owned - tree.usage(root, key) - more + amount
        # Where nothing is to be left, others may be asked to leave for it as for any borrower.
        if keep and unused - amount < keep:
            raised = tree.usage(leaf, key) + more - (tree.subtree_quota(leaf, key) or 0)
            gaps.append(_Gap(key, amount, keep, unused, raised))
    if not gaps:
        return None
    return _told(gaps, {} if charged else _missing(tree, leaf, usage), queue, job)


def _missing(tree: QuotaTree[FlavorResource], leaf: str, usage: FlavorUsage) -> dict[str, int]:
    """By resource, what has to come back before quota lets a job in at all."""
    found = ((key, amount, tree.available(leaf, key)) for key, amount in usage.items() if amount)
    return {key.resource: amount - had for key, amount, had in found if had is not None and had < amount}


def _told(gaps: Sequence[_Gap], missing: Mapping[str, int], queue: Queue, job: Job) -> Refusal:
    """All that lacks in one flavor, by the numbers of the first quota that does."""
    first = gaps[0]
    where: dict[str, int | str] = {"flavor": first.key.flavor, "resource": first.key.resource}
    numbers: dict[str, int | str] = {
        **where,
        "rule": SPARE,
        "asked": first.asked,
        "available": max(0, first.unused - first.keep),
        "keep_free": first.keep,
        "unused": max(0, first.unused),
        "evictions": job.evictions,
    }
    lacks = {gap.key.resource: gap.asked + gap.keep - gap.unused for gap in gaps}
    raised = {gap.key.resource: gap.raised for gap in gaps}
    wait, more = (
        Help(HelpCode.WAIT_FOR_RELEASE, where),
        Help(HelpCode.RAISE_QUOTA, {"queue": queue.id, **where}),
    )
    ways = (*for_each(wait, _largest(lacks, missing)), *for_each(more, _largest(raised, missing)))
    return Refusal(Reason.WAITING_FOR_BORROWED, numbers, ways)


def _largest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in (*one, *other)}


def _drained(key: FlavorResource, asked: int, job: Job) -> Refusal:
    where: dict[str, int | str] = {"flavor": key.flavor, "resource": key.resource}
    numbers = {**where, "rule": DRAINED, "asked": asked}
    if job.drained_until is None:
        return Refusal(Reason.WAITING_FOR_BORROWED, numbers)
    at = int(-(-job.drained_until // 1))
    ways = (Help(HelpCode.WAIT_UNTIL, {"at": at}),)
    return Refusal(Reason.WAITING_FOR_BORROWED, {**numbers, "drained_until": at}, ways)
