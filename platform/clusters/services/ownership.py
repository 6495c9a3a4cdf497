"""A cluster has one identity and one owner, because two platforms would allocate the same cards twice.

The identity is reported by the cluster itself and unique among the rows. The owner is written into the
cluster, with a token that is new at each confirmation. So an installation recognizes another one by its id,
and a copy of itself, such as a database restored while the first one runs on, by a token that its database
does not know. An installation that finds another owner places and removes nothing there and trusts no
observation until an operator decides.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.backends.base import BackendUnavailable, ClusterBackend, Owner
from clusters.backends.registry import backend_for
from clusters.hooks import restarts
from clusters.hooks.restarts import RestartingJob
from clusters.models import Cell, Cluster, ClusterHealth, Node
from clusters.services.node_marks import nodes_changed
from foundation.audit import audit_log
from foundation.core import clock, faults
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, Refused
from foundation.core.reasons import Reason
from foundation.messaging import outbox
from foundation.models.installation import installation_id
from tenants.access import permissions
from tenants.access.permissions import Permission

log = structlog.get_logger(__name__)
_CONFIRMED_WITHIN: Final = timedelta(seconds=90)
EPOCHS_AHEAD: Final = 10**9
"""How much an epoch is raised if a database may have lost some: more than years of them."""
_HOST_LENGTH: Final = 100
_LABEL_JOB: Final = "allotment.io/job"


class ClusterUnreachable(Refused):
    """The cluster does not answer, so its state is unknown."""

    code = Reason.CLUSTER_UNREACHABLE
    title = gettext_lazy("Cluster unreachable")


class Disowned(Conflict):
    """The cluster has another identity than before, or another platform manages it."""

    code = "CLUSTER_DISOWNED"
    title = gettext_lazy("The cluster is managed by another platform, or is a different cluster")


def read_confirm_interval() -> timedelta:
    """Return how long a confirmation of the ownership of a cluster is valid."""
    return timedelta(seconds=settings.ALLOTMENT_OWNER_CONFIRM_S)


def ownership_confirm(*, cluster: Cluster, backend: ClusterBackend, take_over: str = "") -> None:
    """Confirm that the cluster has its old identity and this owner, and write that into the cluster.

    The cluster is asked again after `read_confirm_interval`. `take_over` is the id of an installation that is
    to be replaced.
    Raises: Disowned; BackendUnavailable.
    """
    if not backend.capabilities.owned:
        return
    age = None if cluster.owner_at is None else clock.now() - cluster.owner_at
    fresh = age is not None and timedelta(0) <= age < read_confirm_interval()
    if fresh and not take_over and cluster.health != ClusterHealth.DISOWNED:
        return
    _renew(cluster, backend, ownership_check(cluster=cluster, backend=backend, take_over=take_over))


def ownership_check(*, cluster: Cluster, backend: ClusterBackend, take_over: str = "") -> Owner | None:
    """Return the owner that the cluster names now, or None; nothing is written there.

    Raises: Disowned; BackendUnavailable.
    """
    if not backend.capabilities.owned:
        return None
    _check_identity(cluster, backend.read_identity())
    found = backend.read_owner()
    if not cluster._state.adding:  # a token is stored here before it is written there
        cluster.refresh_from_db(fields=["owner_token", "owner_next"])
    if found is not None and take_over != found.installation:
        _check_owner(cluster, found)
    return found


def backend_confirmed(cluster: Cluster) -> ClusterBackend:
    """Return the backend of a cluster whose ownership was confirmed lately.

    For callers without the cluster's lease. Raises: BackendUnavailable.
    """
    cluster.refresh_from_db(fields=["health", "health_message", "owner_at"])
    backend = backend_for(cluster)
    lately = clock.now() - _CONFIRMED_WITHIN
    if backend.capabilities.owned and (cluster.owner_at is None or cluster.owner_at < lately):
        raise BackendUnavailable(f"who runs cluster {cluster.name} was not confirmed lately")
    return backend


def backend_owned(cluster: Cluster) -> ClusterBackend:
    """Return the backend of a cluster that this database manages; confirm that now if it was not lately.

    The caller holds the cluster's lease, so that tokens are written one after the other. Another owner is
    recorded. Raises: BackendUnavailable.
    """
    backend = backend_for(cluster, disowned_too=True)
    try:
        ownership_confirm(cluster=cluster, backend=backend)
    except Disowned as error:
        disowned_note(cluster=cluster, message=str(error.detail))
        raise BackendUnavailable(str(error.detail)) from error
    owned_note(cluster=cluster)
    return backend


def ownership_release(cluster: Cluster) -> None:
    """Remove the owner from a cluster whose row is being deleted, if the cluster answers."""
    try:
        backend = backend_for(cluster, disowned_too=True)
        found = backend.read_owner()
        if found is not None and _is_ours(cluster, found):
            backend.remove_owner()
    except BackendUnavailable as error:
        log.warning("the owner is left in a cluster", cluster=cluster.name, error=str(error))


def describe_owner(found: Owner) -> str:
    """Describe an owner in one line, for an operator who has to decide."""
    return _("installation %(id)s on %(host)s, last seen %(at)s") % {
        "id": found.installation or "?",
        "host": found.host or "?",
        "at": f"{found.at:%Y-%m-%d %H:%M:%S} UTC",
    }


@transaction.atomic
def disowned_note(*, cluster: Cluster, message: str) -> None:
    """Stop placements in a cluster with another owner, and store the reason."""
    Cluster.unscoped.filter(pk=cluster.pk).update(health=ClusterHealth.DISOWNED, health_message=message)
    if cluster.health != ClusterHealth.DISOWNED:
        log.error("the cluster is not this platform's", cluster=cluster.name, why=message)
        _close(cluster, closed=True)


@transaction.atomic
def owned_note(*, cluster: Cluster) -> None:
    """Have the whole cluster read again; until then, nothing is placed there. See `nodes_open`."""
    if cluster.health != ClusterHealth.DISOWNED:
        return
    cluster.refresh_from_db(fields=["opens_at"])  # a take-over may be under way
    opens_at = cluster.opens_at or clock.now()
    _read_anew(cluster, opens_at=opens_at, health=ClusterHealth.UNKNOWN, health_message="")


def take_over_begin(cluster: Cluster) -> None:
    """Delay the use of a cluster that was taken over until its previous owner must have noticed.

    The previous owner may still be running: for `read_confirm_interval` its last confirmation is valid, and
    calls that it has begun take a while. Call this before the owner is written, inside a transaction.
    """
    _close(cluster, closed=True)
    _read_anew(cluster, opens_at=clock.now() + 2 * read_confirm_interval())


def _read_anew(cluster: Cluster, **fields: Any) -> None:
    anew: dict[str, Any] = {"cursor": "", "foreign_listed_at": None, "listed_at": None}
    Cluster.unscoped.filter(pk=cluster.pk).update(**anew, **fields)
    cluster.refresh_from_db()


def is_read_current(cluster: Cluster) -> bool:
    """Return whether the caller's read of a cluster, from its cursor on and under the lease of its epoch, is
    the latest: no other process has taken the lease or applied newer observations since."""
    read = {"epoch": cluster.epoch, "cursor": cluster.cursor}
    return Cluster.unscoped.filter(pk=cluster.pk, **read).exists()


@transaction.atomic
def nodes_open(cluster: Cluster) -> None:
    """Let a cluster be used again; call this after its pods were read, later than `opens_at`."""
    opened = Cluster.unscoped.filter(pk=cluster.pk, opens_at=cluster.opens_at)
    if opened.exclude(health=ClusterHealth.DISOWNED).update(opens_at=None):
        _close(cluster, closed=False)


def cluster_owner(*, acting_user: Actor, cluster: Cluster) -> Owner | None:
    """Return the platform that manages a cluster, by its own record. Raises: PermissionDenied;
    ClusterUnreachable.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    try:
        return backend_for(cluster, disowned_too=True).read_owner()
    except BackendUnavailable as error:
        raise ClusterUnreachable(str(error)) from error


def cluster_restarting(*, acting_user: Actor, cluster: Cluster) -> Sequence[RestartingJob]:
    """Return the jobs that a take-over would start now, though they may have run since the backup.

    There are none if this database manages the cluster or never did. Raises: PermissionDenied;
    ClusterUnreachable.
    """
    found = cluster_owner(acting_user=acting_user, cluster=cluster)
    if found is None or cluster.owner_at is None or _is_ours(cluster, found):
        return ()
    try:
        pods = backend_for(cluster, disowned_too=True).list_objects("pods")
    except BackendUnavailable as error:
        raise ClusterUnreachable(str(error)) from error
    labels = ((pod["metadata"].get("labels") or {}) for pod in pods)
    return restarts.find_answers().find(cluster, {said.get(_LABEL_JOB, "") for said in labels})


def cluster_take_over(
    *, acting_user: Actor, cluster: Cluster, owner: str, hold: Sequence[RestartingJob] = ()
) -> None:
    """Manage a cluster in place of the platform that its owner object names, by the id of that installation.

    The jobs of `hold` are suspended before any job can start. Raises: PermissionDenied; ClusterUnreachable;
    Disowned if the object names another owner, or the cluster has another identity.
    """
    found = cluster_owner(acting_user=acting_user, cluster=cluster)
    if found is not None and not _is_ours(cluster, found):
        with transaction.atomic():
            take_over_begin(cluster)
    try:
        backend = backend_for(cluster, disowned_too=True)
        ownership_confirm(cluster=cluster, backend=backend, take_over=owner)
    except BackendUnavailable as error:
        raise ClusterUnreachable(str(error)) from error
    with transaction.atomic():
        before = {} if found is None else {"owner": found.installation, "host": found.host}
        audit_log.record_action(
            acting_user, "cluster.take_over", entity="cluster", entity_id=cluster.pk,
            before=before, after={"owner": str(installation_id())},
        )  # fmt: skip
        if hold:
            Cell.unscoped.select_for_update(no_key=True).get(pk=cluster.cell_id)
            restarts.find_answers().hold(acting_user, cluster, hold)
        # Attempts and epochs of this database may count again from lower values than those on pods.
        Cell.unscoped.filter(pk=cluster.cell_id).update(epoch=F("epoch") + EPOCHS_AHEAD)
        owned_note(cluster=cluster)
        outbox.add_hint(outbox.Topic.OBSERVE, cluster.pk)


def _check_identity(cluster: Cluster, uid: str) -> None:
    if cluster.uid == uid:
        return
    if cluster.uid:
        raise Disowned(
            _("A different cluster responds at the address of %(name)s: uid %(uid)s, expected %(known)s")
            % {"name": cluster.name, "uid": uid, "known": cluster.uid}
        )
    taken = Cluster.unscoped.filter(uid=uid).exclude(pk=cluster.pk).values_list("name", flat=True).first()
    if taken is not None:
        raise Disowned(_("The cluster is already added as %(name)s") % {"name": taken}, code="CLUSTER_KNOWN")
    if cluster._state.adding:
        cluster.uid = uid
        return
    try:
        with transaction.atomic():
            Cluster.unscoped.filter(pk=cluster.pk).update(uid=uid)
    except IntegrityError as error:
        raise Disowned(_("The cluster is already added under another name"), code="CLUSTER_KNOWN") from error
    cluster.uid = uid


def _check_owner(cluster: Cluster, found: Owner) -> None:
    if found.installation != str(installation_id()):
        text = _("Cluster %(name)s is managed by another platform: %(owner)s")
        raise Disowned(text % {"name": cluster.name, "owner": describe_owner(found)})
    if not _is_ours(cluster, found):
        text = _(
            "Cluster %(name)s was managed by a copy of this platform with a newer database: "
            "%(owner)s. This database was restored, or is a copy"
        )
        raise Disowned(text % {"name": cluster.name, "owner": describe_owner(found)})


def _is_ours(cluster: Cluster, found: Owner) -> bool:
    known = {cluster.owner_token, cluster.owner_next} - {""}
    return found.installation == str(installation_id()) and found.token in known


def _renew(cluster: Cluster, backend: ClusterBackend, found: Owner | None) -> None:
    """Write the owner with a new token, which the database stores before the cluster does.

    An unconfirmed token is used again, so that a late write brings no unknown token.
    """
    waiting = cluster.owner_next if cluster.owner_next != cluster.owner_token else ""
    token, now = waiting or uuid.uuid4().hex, clock.now()
    rows = Cluster.unscoped.filter(pk=cluster.pk)
    rows.update(owner_next=token)
    version = found.version if found is not None else ""
    host = socket.gethostname()[:_HOST_LENGTH]
    faults.fault_point("ownership.before_write")
    backend.write_owner(Owner(str(installation_id()), token, host, now, version))
    faults.fault_point("ownership.after_write")
    rows.update(owner_token=token, owner_at=now)
    cluster.owner_token = cluster.owner_next = token
    cluster.owner_at = now


def _close(cluster: Cluster, *, closed: bool) -> None:
    Cell.unscoped.select_for_update(no_key=True).get(pk=cluster.cell_id)
    nodes = Node.unscoped.filter(cluster=cluster)
    nodes.update(closed=closed)
    nodes_changed(nodes)
    outbox.add_hint(outbox.Topic.CYCLE, cluster.cell_id)
