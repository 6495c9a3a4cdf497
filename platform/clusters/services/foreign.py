"""Pods of others, written to rows as the cluster shows them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.db import transaction
from django.db.models import QuerySet

from clusters.backends.base import BackendUnavailable, ClusterBackend, ForeignBatch
from clusters.backends.base import ForeignPod as Fact
from clusters.models import Cell, Cluster, ForeignPod, Node
from clusters.services.foreign_sums import foreign_settle
from clusters.services.node_marks import nodes_changed
from foundation import clock, outbox
from foundation.kept import KeptUpdate

log = structlog.get_logger(__name__)
_LOOK_EVERY: Final = timedelta(seconds=2)
_LIST_EVERY: Final = timedelta(minutes=5)
_BATCH: Final = 500  # SQLite bounds the parameters of a statement
_OF_POD: Final = (
    *("node_name", "namespace", "name", "owner", "cpu_millicores", "memory_mib"),
    *("cards", "shares", "standing", "leaving"),
)


def _read_from(cluster: uuid.UUID, before: str, cursor: str, now: datetime) -> QuerySet[Cluster]:
    return Cluster.unscoped.filter(pk=cluster, foreign_cursor=before)


def _read_to(cluster: uuid.UUID, before: str, cursor: str, now: datetime) -> dict[str, Any]:
    return {"foreign_cursor": cursor, "foreign_at": now}


_FOLLOWED: Final = KeptUpdate(_read_from, _read_to)
_LISTED: Final = KeptUpdate(_read_from, lambda *given: {**_read_to(*given), "foreign_listed_at": given[-1]})


def foreign_observe(*, cluster: Cluster, backend: ClusterBackend) -> int:
    """Look at the pods of others if that is due; returns how many have come, changed or gone.

    Two may do so at once: the one whose cursor is no longer the row's changes nothing.
    """
    now = clock.now()
    if cluster.foreign_at is not None and now - cluster.foreign_at < _LOOK_EVERY:
        return 0
    listed = cluster.foreign_listed_at
    cursor = "" if listed is None or now - listed > _LIST_EVERY else cluster.foreign_cursor
    try:
        batch = backend.foreign(cursor)
    except BackendUnavailable as error:
        log.warning("the pods of others are not told", cluster=cluster.name, error=str(error))
        return 0
    return foreign_apply(cluster=cluster, batch=batch)


@transaction.atomic
def foreign_apply(*, cluster: Cluster, batch: ForeignBatch) -> int:
    """Write a batch that was read from `cluster`'s cursor on; returns the number of changes."""
    if batch.pods or batch.gone or batch.complete:
        # In the order in which an admission locks them: the cell, then nodes by key, then cards.
        Cell.unscoped.select_for_update(no_key=True).get(pk=cluster.cell_id)
    now = clock.now()
    note = _LISTED if batch.complete else _FOLLOWED
    if not note(cluster.pk, cluster.foreign_cursor, batch.cursor, now):
        return 0
    touched = _write(cluster, batch)
    if touched and foreign_settle(cluster_id=cluster.pk, names=set(touched)):
        nodes_changed(Node.unscoped.filter(cluster=cluster, name__in=set(touched)))
        outbox.hint(outbox.Topic.CYCLE, cluster.cell_id)
    return len(touched)


def _write(cluster: Cluster, batch: ForeignBatch) -> list[str]:
    """Bring the rows in line; returns the node of each pod that came, changed, moved or went."""
    known = {row.uid: row for row in _rows(cluster, batch)}
    gone = known.keys() - {fact.uid for fact in batch.pods} if batch.complete else batch.gone & known.keys()
    new, changed, touched = [], [], []
    for fact in batch.pods:
        values, row = _values(fact), known.get(fact.uid)
        if row is None:
            new.append(ForeignPod(cluster=cluster, uid=fact.uid, **values))
        elif any(getattr(row, name) != value for name, value in values.items()):
            touched.append(row.node_name)
            for name, value in values.items():
                setattr(row, name, value)
            changed.append(row)
    ForeignPod.unscoped.bulk_create(new, batch_size=_BATCH)
    ForeignPod.unscoped.bulk_update(changed, _OF_POD, batch_size=_BATCH)
    for uids in _portions(gone):
        ForeignPod.unscoped.filter(cluster=cluster, uid__in=uids).delete()
    return touched + [row.node_name for row in (*new, *changed)] + [known[uid].node_name for uid in gone]


def _rows(cluster: Cluster, batch: ForeignBatch) -> Iterator[ForeignPod]:
    rows = ForeignPod.unscoped.filter(cluster=cluster)
    if batch.complete:
        yield from rows
        return
    for uids in _portions({*batch.gone, *(fact.uid for fact in batch.pods)}):
        yield from rows.filter(uid__in=uids)


def _portions(uids: Iterable[str]) -> Iterator[list[str]]:
    ordered = sorted(uids)
    return (ordered[start : start + _BATCH] for start in range(0, len(ordered), _BATCH))


def _values(fact: Fact) -> dict[str, Any]:
    return {
        "node_name": fact.node,
        "namespace": fact.namespace,
        "name": fact.name,
        "owner": fact.owner,
        "cpu_millicores": fact.cpu_millicores,
        "memory_mib": fact.memory_mib,
        "cards": dict(fact.cards),
        "shares": [[share.uuid, share.cores, share.memory_mib] for share in fact.shares],
        "standing": fact.standing,
        "leaving": fact.leaving,
    }
