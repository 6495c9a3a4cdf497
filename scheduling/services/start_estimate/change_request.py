"""Requests estimates of which jobs start earlier or later after a change of quota or policy."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor, Sharing
from foundation.core.errors import Conflict
from quotas.models import Queue
from quotas.services.queues.queue_preset import Preset
from quotas.services.queues.queue_settings import queue_check
from quotas.services.quota import NodeAmounts, Shrink, quota_check
from scheduling.models import EstimateSubject, StartEstimate
from scheduling.selectors.pending.start_prediction import NoForecast, queue_forecast
from scheduling.services.start_estimate.request import create_estimate
from scheduling.snapshots.delegated import delegating_clusters
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User


def request_quota_estimate(
    *, acting_user: User, cell_id: uuid.UUID, changes: Sequence[NodeAmounts], shrink: Shrink | None = None
) -> StartEstimate:
    """Request an estimate for new limits of some nodes, without those that a cluster's own scheduler applies.

    Raises: as `quota_check`; Conflict, also if such a scheduler applies them all.
    """
    plan = quota_check(acting_user=acting_user, cell_id=cell_id, changes=changes)
    delegated = set(
        Flavor.unscoped.filter(cluster__in=delegating_clusters(cell_id)).values_list("pk", flat=True)
    )
    if plan.rows and all(key.flavor_id in delegated for key in plan.rows):
        raise _other_scheduler()
    drained = plan.over_quota if shrink is Shrink.DRAIN else ()
    rows = [
        [str(key.node_id), str(key.flavor_id), key.resource,
         limits.own_nominal, limits.borrowing_limit, limits.lending_limit]
        for key, limits in plan.rows.items()
        if key.flavor_id not in delegated
    ]  # fmt: skip
    over = [
        [str(one.key.node_id), str(one.key.flavor_id), one.key.resource, one.reserved, one.limit]
        for one in drained
        if one.key.flavor_id not in delegated
    ]
    return _create(acting_user, cell_id, {"quotas": rows, "drained": over})


def request_queue_estimate(
    *,
    acting_user: User,
    queue: Queue,
    values: Mapping[str, Any],
    preset: Preset | None = None,
    flavors: Sequence[Flavor] | None = None,
) -> StartEstimate:
    """Request an estimate for new settings of a queue.

    Raises: as `queue_check`; Conflict, also if a cluster's own scheduler decides about the queue.
    """
    wanted = queue_check(acting_user=acting_user, queue=queue, values=values, preset=preset)
    if queue_forecast(queue) is NoForecast.OTHER_SCHEDULER:
        raise _other_scheduler()
    order = None if flavors is None else [str(flavor.pk) for flavor in flavors]
    return _create(acting_user, queue.cell_id, {"queue": str(queue.pk), "settings": wanted, "flavors": order})


def request_sharing_estimate(*, acting_user: User, cell: Cell, sharing: Sharing) -> StartEstimate:
    """Request an estimate for another sharing of unused quota. Raises: PermissionDenied, Conflict."""
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    return _create(acting_user, cell.pk, {"sharing": sharing.value})


def _create(acting_user: User, cell_id: uuid.UUID, asked: dict[str, Any]) -> StartEstimate:
    return create_estimate(
        acting_user=acting_user, subject=EstimateSubject.CHANGE, cell_id=cell_id, asked=asked
    )


def _other_scheduler() -> Conflict:
    return Conflict(
        _("Unknown: the cluster's own scheduler decides about these jobs."), code="OTHER_SCHEDULER"
    )
