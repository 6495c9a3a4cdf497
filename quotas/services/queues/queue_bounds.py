"""Limits of a new queue until they are decided above the workspace."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.core.quantities import Resource
from quotas.models import Queue, Quota
from tenants.access import permissions
from tenants.access.permissions import Permission


def bound_flavors(acting_user: Actor, queue: Queue, flavors: Sequence[Flavor]) -> bool:
    """Set a borrowing limit of 0 for a queue in flavors without stored limits, unless the user decides above.

    The limit of what a queue borrows is decided above the workspace. Without a limit of its own a queue
    borrows as much as it can, so that a second queue, or another flavor, would bypass the limit of the first.
    A user with the permission above the workspace opens the queue without limits. Returns whether the queue
    is limited.
    """
    if permissions.has_permission(acting_user, Permission.QUOTA_EDIT, queue.workspace.parent):
        return False
    said = set(Quota.unscoped.filter(node=queue.node_id).values_list("flavor_id", "resource"))
    Quota.unscoped.bulk_create(
        Quota(node_id=queue.node_id, flavor=flavor, resource=resource.value, own_nominal=0, borrowing_limit=0)
        for flavor in flavors
        for resource in Resource
        if (flavor.pk, resource.value) not in said
    )
    return True
