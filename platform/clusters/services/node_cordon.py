"""Cordons of nodes: requested by operators, applied under the lease of the cluster.

A request is a row, like every change of a cluster. A node counts as cordoned from the request on, even if
older observations differ, and as uncordoned once the cluster has confirmed it. A request that the cluster
refuses changes nothing; its row keeps the message.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from clusters.backends.base import ClusterBackend, NodeFact, OutcomeKind, PodOutcome
from clusters.models import Cell, Cluster, ClusterHealth, Node, NodeCordon, NodeEvent
from clusters.models.node_cordon import REASON_LENGTH
from clusters.services.node_marks import nodes_changed
from clusters.services.ownership import ClusterUnreachable
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import FieldError, Invalid, NotFound
from foundation.messaging import outbox
from foundation.sql.prepared import PreparedQuery
from tenants.access import permissions
from tenants.access.permissions import Permission

_BATCH: Final = 100
_ASK_AGAIN_S: Final = 1.0
_SETTLING: Final = timedelta(seconds=15)
"""How long after an answer observations may be older than it; the next list is newer."""
_UNREACHABLE: Final = (ClusterHealth.UNREACHABLE, ClusterHealth.DISOWNED)


def _pending(cluster: uuid.UUID) -> QuerySet[NodeCordon]:
    rows = NodeCordon.unscoped.filter(
        node__cluster=cluster, applied_at__isnull=True, ended_at__isnull=True, node__present=True
    )
    return rows.select_related("node").order_by("id")[:_BATCH]


_PENDING: Final[PreparedQuery[Any]] = PreparedQuery(_pending)


def node_cordon(*, acting_user: Actor, node: Node, reason: str = "") -> NodeCordon | None:
    """Request that no new pods are placed on a node; running pods are not affected.

    Returns the open request. A node that is cordoned already is left as it is, unless a new reason is given;
    None if another client cordoned it and no reason is added.
    Raises: PermissionDenied; NotFound for a node that left the cluster; ClusterUnreachable; Invalid for the
    reason.
    """
    return request_cordon(acting_user=acting_user, node=node, reason=reason)


@transaction.atomic
def request_cordon(
    *,
    acting_user: Actor,
    node: Node,
    reason: str = "",
    drain: bool = False,
    noted: Mapping[str, Any] | None = None,
) -> NodeCordon | None:
    """Request a cordon as `node_cordon` does; with `drain`, jobs are evicted once the node is cordoned.

    `noted` is recorded for a drain in the audit log in addition to the reason.
    """
    row, now = _lock_node(acting_user, node), clock.now()
    text = _clean_reason(reason)
    there = _find_open(row)
    current = there if there is not None and not there.schedulable else None
    has_changed = bool(text) and (current is None or text != current.reason)
    if drain:
        has_changed = has_changed or current is None or not current.is_draining
    elif current is None and not row.cordoned:
        has_changed = True
    if there is not None and there.schedulable:
        has_changed = True  # the previous request was the opposite
    if not has_changed:
        return current
    was_cordoned = there.was_cordoned if there is not None and there.is_pending else row.cordoned
    _end_request(there, now)
    draining = drain or (current is not None and current.is_draining)
    made = NodeCordon.unscoped.create(
        node=row,
        schedulable=False,
        drain=draining,
        was_cordoned=was_cordoned,
        reason=text or (current.reason if current else ""),
        requested_by=acting_user.get_username(),
        requested_at=now,
    )
    actor, numbers = {"by": made.requested_by}, {"by": made.requested_by, "reason": text}
    if not row.cordoned:
        _note_cordoned(row, True, now, actor if drain else numbers)
    if drain:
        NodeEvent.unscoped.create(node=row, at=now, code="drain", numbers=numbers)
    _note(acting_user, "drain" if drain else "cordon", row, after={"reason": text, **(noted or {})})
    outbox.add_hint(outbox.Topic.EXECUTE, row.cluster_id)
    return made


@transaction.atomic
def node_uncordon(*, acting_user: Actor, node: Node) -> NodeCordon | None:
    """Request that new pods are placed on a node again; a drain under way ends, even if jobs are left.

    Returns the open request, None for a node that takes new pods anyway. Raises: PermissionDenied; NotFound
    for a node that left the cluster; ClusterUnreachable.
    """
    row, now = _lock_node(acting_user, node), clock.now()
    there = _find_open(row)
    if there is not None and there.schedulable:
        return there
    if there is None and not row.cordoned:
        return None
    _end_request(there, now)
    made = NodeCordon.unscoped.create(
        node=row,
        schedulable=True,
        was_cordoned=row.cordoned,
        requested_by=acting_user.get_username(),
        requested_at=now,
    )
    _note(acting_user, "uncordon", row, after={})
    outbox.add_hint(outbox.Topic.EXECUTE, row.cluster_id)
    return made


def apply_cordons(*, cluster: Cluster, backend: ClusterBackend) -> int:
    """Apply the pending requests of a cluster; return how many the cluster answered.

    The caller holds the cluster's lease, so that no inventory is read meanwhile.
    """
    pending = _PENDING(cluster.pk)
    answered = 0
    for row in pending:
        outcome = backend.mark_schedulable(row.node.name, schedulable=row.schedulable)
        if outcome.kind is not OutcomeKind.UNKNOWN:
            _settle(row.pk, outcome)
            answered += 1
    if answered < len(pending):
        outbox.add_hint(outbox.Topic.EXECUTE, cluster.pk, delay_s=_ASK_AGAIN_S)
    return answered


@transaction.atomic
def _settle(cordon_id: uuid.UUID, outcome: PodOutcome) -> None:
    """Record an answer of the cluster, unless another request was made meanwhile."""
    row = NodeCordon.unscoped.select_related("node__cluster").get(pk=cordon_id)
    Cell.unscoped.select_for_update(no_key=True).get(pk=row.node.cluster.cell_id)
    row.refresh_from_db(fields=["applied_at", "ended_at"])
    if not row.is_pending:
        return
    node = Node.unscoped.select_for_update(no_key=True).get(pk=row.node_id)
    now = clock.now()
    if outcome.kind is OutcomeKind.REFUSED:
        row.refusal, row.ended_at = outcome.message or outcome.code, now
        NodeEvent.unscoped.create(node=node, at=now, code="cordon-refused", numbers={"message": row.refusal})
        if not row.schedulable and node.cordoned and not row.was_cordoned:
            _note_cordoned(node, False, now, {})
    else:
        row.applied_at = now
        if row.schedulable:
            row.ended_at = now
            if node.cordoned:
                _note_cordoned(node, False, now, {"by": row.requested_by})
    row.save(update_fields=["applied_at", "ended_at", "refusal"])


@dataclass(frozen=True, slots=True)
class CordonWatch:
    """The requests of a cluster by node, for the observation of its nodes."""

    rows: Mapping[uuid.UUID, NodeCordon]

    def apply_observation(self, node: Node | None, fact: NodeFact, at: datetime) -> bool:
        """Return whether a node counts as cordoned after an observation of that time.

        A request decides until the cluster has applied it, and for `_SETTLING` longer, because a watch may
        deliver older events. Later the observation decides: a cordon that another client has removed ends.
        """
        row = self.rows.get(node.pk) if node is not None else None
        if row is None:
            return fact.cordoned
        if row.applied_at is None:
            return fact.cordoned or not row.schedulable
        if at - row.applied_at < _SETTLING:
            return not row.schedulable
        if not row.schedulable and not fact.cordoned:
            _end_request(row, at)
        return fact.cordoned

    def note_left(self, node: Node | None) -> None:
        """End the request of a node that has left the cluster."""
        _end_request(self.rows.get(node.pk) if node is not None else None, clock.now())


def find_cordons(cluster: Cluster) -> CordonWatch:
    """Return the open requests of a cluster, and those that have just opened a node."""
    known = Q(ended_at__isnull=True) | Q(schedulable=True, applied_at__gt=clock.now() - _SETTLING)
    rows = NodeCordon.unscoped.filter(known, node__cluster=cluster)
    return CordonWatch({row.node_id: row for row in rows.order_by("id")})


def _lock_node(acting_user: Actor, node: Node) -> Node:
    """Return the present row, locked after its cell in the lock order of observations."""
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    Cell.unscoped.select_for_update(no_key=True).get(clusters=node.cluster_id)
    rows = Node.unscoped.select_for_update(of=("self",), no_key=True).select_related("cluster")
    row = rows.filter(pk=node.pk, present=True).first()
    if row is None:
        raise NotFound(_("Node %(name)s not found.") % {"name": node.name})
    if row.cluster.health in _UNREACHABLE:
        message = _("Cluster %(name)s is unreachable. No changes were made.")
        raise ClusterUnreachable(message % {"name": row.cluster.name})
    return row


def _clean_reason(text: str) -> str:
    reason = " ".join(text.replace("\x00", "").split())
    if len(reason) > REASON_LENGTH:
        message = _("Maximum: %(limit)s characters.") % {"limit": REASON_LENGTH}
        raise Invalid(message, errors=[FieldError("reason", "TOO_LONG", message)])
    return reason


def _find_open(node: Node) -> NodeCordon | None:
    return NodeCordon.unscoped.filter(node=node, ended_at__isnull=True).first()


def _end_request(row: NodeCordon | None, now: datetime) -> None:
    if row is not None:
        NodeCordon.unscoped.filter(pk=row.pk, ended_at__isnull=True).update(ended_at=now)


def _note_cordoned(node: Node, cordoned: bool, now: datetime, numbers: Mapping[str, Any]) -> None:
    Node.unscoped.filter(pk=node.pk).update(cordoned=cordoned)
    node.cordoned = cordoned
    code = "cordoned" if cordoned else "uncordoned"
    NodeEvent.unscoped.create(node=node, at=now, code=code, numbers=dict(numbers))
    nodes_changed(Node.unscoped.filter(pk=node.pk))
    cell_id = Cluster.unscoped.values_list("cell_id", flat=True).get(pk=node.cluster_id)
    outbox.add_hint(outbox.Topic.CYCLE, cell_id)


def _note(actor: Actor, verb: str, node: Node, *, after: Mapping[str, Any]) -> None:
    audit_log.record_action(
        actor,
        f"node.{verb}",
        entity="node",
        entity_id=node.pk,
        after={"name": node.name, "cluster": node.cluster.name, **after},
    )
