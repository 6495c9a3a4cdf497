"""Clusters of the platform: added once they answer, synchronized, removed when nothing refers to them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import structlog
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils.translation import gettext as _

from clusters.backends.base import BackendUnavailable, ConnectionInvalid, Inventory
from clusters.backends.registry import backend_for, capabilities_for, delegate_for
from clusters.models import ADMITS_ITSELF, BackendKind, Cell, Cluster, ClusterHealth, Node
from clusters.services.cluster_permissions import permissions_refresh, permissions_refresh_denied
from clusters.services.foreign import foreign_apply
from clusters.services.inventory import inventory_sync
from clusters.services.ownership import (
    ClusterUnreachable,
    Disowned,
    ownership_check,
    ownership_confirm,
    ownership_release,
    take_over_begin,
)
from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid, Refused
from foundation.messaging import outbox
from foundation.sql import versions
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models.names import clean_slug

log = structlog.get_logger(__name__)


def cluster_add(
    *,
    acting_user: Actor,
    cell: Cell,
    name: str,
    backend: BackendKind,
    connection: Mapping[str, Any],
    take_over: str = "",
) -> Cluster:
    """Add a cluster with its nodes, once it has answered; `connection` holds paths of files, no secret.

    `take_over` is the id of the installation that managed it, if that one is lost. Raises: PermissionDenied;
    Invalid for name or connection; ClusterUnreachable; Conflict if the name is taken; Disowned for a
    cluster that is known by another name or that another platform manages.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    name = clean_slug(name, field="name")
    cluster = Cluster(cell=cell, name=name, backend=backend, connection=dict(connection))
    if Cluster.unscoped.filter(name=name).exists():
        raise name_taken_error()
    inventory = _asked(cluster, take_over=take_over)  # no call to a cluster is made inside a transaction
    with transaction.atomic():
        try:
            with transaction.atomic():
                cluster.save(force_insert=True)
        except IntegrityError as error:
            raise name_taken_error() from error
        _note(acting_user, "add", cluster, after={"name": name, "backend": backend, **connection})
        inventory_sync(cluster=cluster, inventory=inventory)
        outbox.add_hint(outbox.Topic.OBSERVE, cluster.pk)
    _begin(cluster, take_over)
    return cluster


def name_taken_error() -> Conflict:
    """Return the error of a cluster name that exists already."""
    taken = _("Cluster name already exists")
    return Conflict(taken, code="NAME_TAKEN", errors=[FieldError("name", "NAME_TAKEN", taken)])


def _begin(cluster: Cluster, take_over: str) -> None:
    """Write the owner into a new cluster, and count what every pod there holds before anything is placed.

    The first observation of the cluster repeats what fails here.
    """
    try:
        # The first call, because a missing permission may end any later one.
        permissions_refresh(cluster=cluster, backend=backend_for(cluster), at_once=True)
        if take_over:
            with transaction.atomic():
                take_over_begin(cluster)
        ownership_confirm(cluster=cluster, backend=backend_for(cluster), take_over=take_over)
        foreign_apply(cluster=cluster, bound=backend_for(cluster).observe_pods(None).bound)
    except (BackendUnavailable, Disowned) as error:
        log.warning("a new cluster is not read yet", cluster=cluster.name, error=str(error))


def cluster_sync(*, acting_user: Actor, cluster: Cluster) -> int:
    """Read a cluster's nodes, cards and missing permissions now, and return how many nodes it has.

    Raises: PermissionDenied; ClusterUnreachable.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    try:
        inventory = _asked(cluster)
    except ClusterUnreachable as error:
        permissions_refresh_denied(cluster=cluster, error=error.__cause__)
        raise
    nodes = inventory_sync(cluster=cluster, inventory=inventory)
    permissions_refresh(cluster=cluster, backend=backend_for(cluster), at_once=True)
    return nodes


@transaction.atomic
def cluster_set(
    *, acting_user: Actor, cluster: Cluster, live_resize: bool, expected: int | None = None
) -> Cluster:
    """Set whether the memory of running parts of cards may be changed in a cluster: experimental.

    Changes under way continue. Raises: PermissionDenied; Refused for a cluster that does not support it;
    PreconditionFailed if it is not at the version `expected`.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    if live_resize and not capabilities_for(cluster).resize:
        message = _("This cluster type doesn't support resizing GPU memory")
        raise Refused(message, code="CANNOT_RESIZE", errors=[FieldError("live_resize", "REFUSED", message)])
    versions.advance_version(cluster, expected=expected)
    before = Cluster.unscoped.values_list("live_resize", flat=True).get(pk=cluster.pk)
    Cluster.unscoped.filter(pk=cluster.pk).update(live_resize=live_resize)
    cluster.live_resize = live_resize
    _note(acting_user, "set", cluster, before={"live_resize": before}, after={"live_resize": live_resize})
    return cluster


def cluster_reconnect(
    *, acting_user: Actor, cluster: Cluster, connection: Mapping[str, Any], expected: int | None = None
) -> Cluster:
    """Set another connection of a cluster, once the cluster has answered there and is the same cluster.

    Its pods keep running. The uid identifies the cluster; if its uid is not known yet, one of its known nodes
    has to exist there. Raises: PermissionDenied; Invalid for the connection; ClusterUnreachable; Disowned for
    another cluster, or one that another platform manages; Refused for a simulated one; PreconditionFailed if
    it is not at the version `expected`.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    if cluster.backend == BackendKind.SIMULATED:
        raise Refused(_("Simulated clusters have no connection settings"), code="NO_CONNECTION")
    there = Cluster.unscoped.get(pk=cluster.pk)
    # It may be closed because another cluster answered at the old address: the new address mends that.
    there.connection, there.health = dict(connection), ClusterHealth.UNKNOWN
    if not there.uid:
        _require_known_node(there)
    inventory = _asked(there)  # no call to a cluster is made inside a transaction
    with transaction.atomic():
        versions.advance_version(cluster, expected=expected)
        row = Cluster.unscoped.select_for_update().get(pk=cluster.pk)
        before, cluster.connection = row.connection, dict(connection)
        # Another connection may be that of another account, whose permissions are not known yet.
        cluster.missing_permissions = cluster.permissions_at = None
        Cluster.unscoped.filter(pk=cluster.pk).update(
            connection=cluster.connection, missing_permissions=None, permissions_at=None
        )
        _note(acting_user, "set", cluster, before={"connection": before}, after={"connection": connection})
        inventory_sync(cluster=there, inventory=inventory)
        outbox.add_hint(outbox.Topic.OBSERVE, cluster.pk)
    return cluster


def _require_known_node(there: Cluster) -> None:
    known = set(Node.unscoped.filter(cluster=there, present=True).values_list("name", flat=True))
    try:
        found = {fact.name for fact in backend_for(there).read_inventory().nodes}
    except ConnectionInvalid as error:
        raise Invalid(errors=[FieldError("connection", "INVALID", str(error))]) from error
    except BackendUnavailable as error:
        raise ClusterUnreachable(str(error)) from error
    if known and not known & found:
        message = _("None of the nodes of cluster %(name)s found: this is a different cluster")
        raise Disowned(message % {"name": there.name})


def cluster_remove(*, acting_user: Actor, cluster: Cluster) -> None:
    """Delete a cluster with its nodes, cards and flavors. Its pods are not touched.

    Raises: PermissionDenied; Conflict while a queue, a quota in use, or the history of a job refers to it.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    _forget(acting_user, cluster)
    ownership_release(cluster)


@transaction.atomic
def _forget(acting_user: Actor, cluster: Cluster) -> None:
    Cell.unscoped.select_for_update(no_key=True).get(pk=cluster.cell_id)
    key, before = cluster.pk, {"name": cluster.name, "backend": cluster.backend}
    try:
        with transaction.atomic():
            cluster.nodes.all().delete()
            cluster.flavors.all().delete()
            cluster.delete()
    except ProtectedError as error:
        kinds = sorted({str(held._meta.verbose_name_plural) for held in error.protected_objects})
        message = _("Cluster %(name)s is in use by: %(kinds)s")
        raise Conflict(
            message % {"name": before["name"], "kinds": ", ".join(kinds)}, code="CLUSTER_IN_USE"
        ) from error
    audit_log.record_action(acting_user, "cluster.remove", entity="cluster", entity_id=key, before=before)
    outbox.add_hint(outbox.Topic.CYCLE, cluster.cell_id)


def _asked(cluster: Cluster, *, take_over: str = "") -> Inventory:
    try:
        ownership_check(cluster=cluster, backend=backend_for(cluster), take_over=take_over)
        if cluster.backend in ADMITS_ITSELF:
            delegate_for(cluster).list_verdicts()  # its engine must exist, and accept us
        return backend_for(cluster).read_inventory()
    except ConnectionInvalid as error:
        raise Invalid(errors=[FieldError("connection", "INVALID", str(error))]) from error
    except BackendUnavailable as error:
        raise ClusterUnreachable(str(error)) from error


def _note(actor: Actor, verb: str, cluster: Cluster, **change: Any) -> None:
    key: uuid.UUID = cluster.pk
    audit_log.record_action(actor, f"cluster.{verb}", entity="cluster", entity_id=key, **change)
