"""Finds jobs on nodes and cards that have failed or are drained, with the numbers for their evictions.

An eviction releases nothing by itself: allocations are released when their pods are confirmed gone.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q, QuerySet

from foundation.sql.prepared import PreparedQuery
from scheduling.engine import model as em
from scheduling.engine_input.jobs import read_toleration
from scheduling.models import Allocation, JobState

NODE_GRACE: Final = timedelta(seconds=30)
"""The time for which a node may be not ready before its jobs are evicted."""
CARD_GRACE: Final = timedelta(seconds=30)
"""The time for which a card may be reported as failed before its jobs are evicted."""
_LIMIT: Final = 200
_RUNNING: Final = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)

Because = dict[uuid.UUID, dict[str, str]]


def _held() -> QuerySet[Allocation]:
    return Allocation.unscoped.filter(released_at__isnull=True, attempt__job__state__in=_RUNNING)


def _lost(since: datetime) -> QuerySet[Allocation, tuple[uuid.UUID, str]]:
    lost = Q(node__present=False) | Q(node__ready=False, node__not_ready_since__lt=since)
    return _held().filter(lost).order_by("id").values_list("attempt__job_id", "node__name")[:_LIMIT]


def _tainted() -> QuerySet[Allocation]:
    tainted = _held().filter(node__present=True).exclude(node__taints=[])
    return tainted.select_related("node", "flavor", "attempt__job").order_by("id")


def _broken(since: datetime) -> QuerySet[Allocation, tuple[uuid.UUID, str, str]]:
    broken = _held().filter(slices__released=False, slices__device__broken_since__lt=since, node__ready=True)
    rows = broken.order_by("id").values_list("attempt__job_id", "node__name", "slices__device__uuid")
    return rows[:_LIMIT]


_LOST: Final = PreparedQuery(_lost)
_TAINTED: Final = PreparedQuery(_tainted)
_BROKEN: Final = PreparedQuery(_broken)


def on_lost_nodes(*, now: datetime) -> Because:
    """Return the jobs on nodes that no longer exist or are not ready for too long, with the node."""
    return {job: {"node": node} for job, node in _LOST(now - NODE_GRACE)}


def on_drained_nodes() -> Because:
    """Return the jobs on nodes with `NoExecute` taints that they do not tolerate, with node and taint."""
    found: Because = {}
    for row in _TAINTED():
        asked = row.attempt.job.placement.get("tolerations") or ()
        accepted = [read_toleration(item) for item in (*row.flavor.tolerations, *asked)]
        for taint in row.node.taints:
            if taint["effect"] == em.TaintEffect.NO_EXECUTE and not _covered(taint, accepted):
                found.setdefault(row.attempt.job_id, {"node": row.node.name, "taint": taint["key"]})
    return dict(sorted(found.items())[:_LIMIT])


def _covered(taint: dict[str, str], accepted: Iterable[em.Toleration]) -> bool:
    mark = em.Taint(taint["key"], taint.get("value", ""), em.TaintEffect.NO_EXECUTE)
    return any(item.tolerates_taint(mark) for item in accepted)


def on_broken_cards(*, now: datetime) -> Because:
    """Return the jobs that hold a part of a failed card, with node and card."""
    return {job: {"node": node, "card": card} for job, node, card in _BROKEN(now - CARD_GRACE)}
