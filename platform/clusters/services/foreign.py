"""Stores pods that hold capacity without a live allocation in this database, as the cluster reports them.

They were created by other owners, by another installation, or by this one before its database was restored
from a backup. Their capacity is not free, whatever labels they carry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import structlog
from django.db import transaction

from clusters.backends.base import BoundPod, BoundPods
from clusters.models import Cell, Cluster, ForeignOrigin, ForeignPod, Node
from clusters.services.foreign_sums import foreign_settle
from clusters.services.node_marks import nodes_changed
from foundation.core import clock
from foundation.messaging import outbox
from foundation.models.installation import installation_id
from foundation.sql.prepared import PreparedQuery, PreparedUpdate

log = structlog.get_logger(__name__)
_DIGITS: Final = 10
_BATCH: Final = 500  # SQLite bounds the parameters of a statement
_OF_POD: Final = (
    *("node_name", "namespace", "name", "owner", "origin", "job", "attempt", "cpu_millicores", "memory_mib"),
    *("cards", "shares", "standing", "leaving"),
)


_KNOWN: Final = PreparedQuery(
    lambda uids, cluster: ForeignPod.unscoped.filter(cluster=cluster, uid__any_of=uids)
)
_SAME: Final = PreparedUpdate(
    lambda pk, cursor, epoch, now: Cluster.unscoped.filter(pk=pk, cursor=cursor, epoch=epoch),
    lambda pk, cursor, epoch, now: {"foreign_at": now},
)
_LISTED: Final = PreparedUpdate(
    lambda pk, cursor, epoch, now: Cluster.unscoped.filter(pk=pk, cursor=cursor, epoch=epoch),
    lambda pk, cursor, epoch, now: {"foreign_at": now, "foreign_listed_at": now},
)
FindOwn = Callable[[Cluster, BoundPods], Collection[str]]


def _find_none(cluster: Cluster, bound: BoundPods) -> Collection[str]:
    return ()


def foreign_apply(*, cluster: Cluster, bound: BoundPods, find_own: FindOwn = _find_none) -> int:
    """Count all pods but those whose uids `find_own` returns, and delete rows of pods that are gone; return
    how many rows were created, changed or deleted.

    The pods were read from `cluster`'s cursor on, under the lease of its epoch. If either has changed since,
    another process reads or has applied newer pods, and nothing is changed. Rows are compared under the lock
    under which they are written; the comparison before it only saves the lock if nothing differs.
    """
    if not (bound.pods or bound.removed or bound.complete):
        return 0
    if not bound.complete and _compare(cluster, bound, find_own).is_empty:
        return 0
    with transaction.atomic():
        # In the lock order of an admission: the cell, then nodes by key, then cards.
        Cell.unscoped.select_for_update(no_key=True).get(pk=cluster.cell_id)
        guarded = _LISTED if bound.complete else _SAME
        if not guarded(cluster.pk, cluster.cursor, cluster.epoch, clock.now()):
            return 0
        found = _compare(cluster, bound, find_own)
        touched = _write(cluster, found.theirs, found.known, found.removed)
        if touched and foreign_settle(cluster_id=cluster.pk, names=set(touched)):
            nodes_changed(Node.unscoped.filter(cluster=cluster, name__in=set(touched)))
            outbox.add_hint(outbox.Topic.CYCLE, cluster.cell_id)
    return len(touched)


class _Compared(NamedTuple):
    """The pods of other owners in a batch, the rows of its pods by uid, and the uids of rows to delete."""

    theirs: Sequence[BoundPod]
    known: Mapping[str, ForeignPod]
    removed: Collection[str]

    @property
    def is_empty(self) -> bool:
        return not (self.theirs or self.removed)


def _compare(cluster: Cluster, bound: BoundPods, find_own: FindOwn) -> _Compared:
    own = frozenset(find_own(cluster, bound))
    theirs = [pod.read() for pod in bound.pods if pod.uid not in own]
    known = {row.uid: row for row in _rows(cluster, bound)}
    there = {pod.uid for pod in theirs}
    removed = known.keys() - there if bound.complete else known.keys() & (bound.removed | own)
    return _Compared(theirs, known, removed)


def origin_of(pod: BoundPod) -> ForeignOrigin:
    """Return the origin of a pod without a live allocation in this database."""
    if not pod.installation and not pod.labels:
        return ForeignOrigin.OTHER
    if pod.installation in ("", str(installation_id())):
        return ForeignOrigin.UNKNOWN
    return ForeignOrigin.INSTALLATION


def _write(
    cluster: Cluster, pods: Iterable[BoundPod], known: Mapping[str, ForeignPod], removed: Collection[str]
) -> list[str]:
    """Update the rows; return the node of each pod that appeared, changed, moved or disappeared."""
    new, changed, touched = [], [], []
    for pod in pods:
        values, row = _values(pod), known.get(pod.uid)
        if row is None:
            new.append(ForeignPod(cluster=cluster, uid=pod.uid, **values))
        elif any(getattr(row, name) != value for name, value in values.items()):
            touched.append(row.node_name)
            for name, value in values.items():
                setattr(row, name, value)
            changed.append(row)
    ForeignPod.unscoped.bulk_create(new, batch_size=_BATCH)
    ForeignPod.unscoped.bulk_update(changed, _OF_POD, batch_size=_BATCH)
    for uids in _portions(removed):
        ForeignPod.unscoped.filter(cluster=cluster, uid__in=uids).delete()
    if new:
        _warn_of_unmanaged_pods(cluster, new)
    return touched + [row.node_name for row in (*new, *changed)] + [known[uid].node_name for uid in removed]


def _warn_of_unmanaged_pods(cluster: Cluster, new: Iterable[ForeignPod]) -> None:
    """Log pods with the platform's labels that are not in this database, for an operator."""
    unmanaged = sorted(str(row) for row in new if row.origin != ForeignOrigin.OTHER)
    if unmanaged:
        log.warning(
            "pods of the platform's kind are not in this database", cluster=cluster.name, pods=unmanaged
        )


def _rows(cluster: Cluster, bound: BoundPods) -> list[ForeignPod]:
    if bound.complete:
        return list(ForeignPod.unscoped.filter(cluster=cluster))
    return _KNOWN.for_any([*bound.removed, *(pod.uid for pod in bound.pods)], cluster.pk)


def _portions(uids: Iterable[str]) -> Iterator[list[str]]:
    ordered = sorted(uids)
    return (ordered[start : start + _BATCH] for start in range(0, len(ordered), _BATCH))


def _number(text: str) -> int:
    """Return the number of an attempt; 0 for any other text in a label."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _DIGITS else 0


def _values(fact: BoundPod) -> dict[str, Any]:
    return {
        "node_name": fact.node,
        "namespace": fact.namespace,
        "name": fact.name,
        "owner": fact.owner,
        "origin": origin_of(fact),
        "job": fact.labels.get("allotment.io/job", ""),
        "attempt": _number(fact.labels.get("allotment.io/attempt", "")),
        "cpu_millicores": fact.cpu_millicores,
        "memory_mib": fact.memory_mib,
        "cards": dict(fact.cards),
        "shares": [[share.uuid, share.cores, share.memory_mib] for share in fact.shares],
        "standing": fact.is_permanent,
        "leaving": fact.terminating,
    }
