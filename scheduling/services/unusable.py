"""Allocations on nodes and cards that can no longer be counted on, and what is said of each.

That a job is told to leave frees nothing: what it holds comes back when its pods are confirmed gone.
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
"""So long a node may be silent before its jobs are started elsewhere."""
CARD_GRACE: Final = timedelta(seconds=30)
"""So long a card may be reported as failed, in case the report is taken back."""
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
    """Jobs on nodes that have left the cluster, or are not ready for too long; by job the node."""
    return {job: {"node": node} for job, node in _LOST(now - NODE_GRACE)}


def on_drained_nodes() -> Because:
    """Jobs on nodes whose `NoExecute` taints they do not tolerate; by job the node and the taint."""
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
    """Jobs that hold a part of a card which is known to have failed; by job the node and the card."""
    return {job: {"node": node, "card": card} for job, node, card in _BROKEN(now - CARD_GRACE)}
