"""Lists existing namespaces of workspaces, and hands them over for an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.backends.base import BackendUnavailable, NamespaceState
from clusters.backends.registry import backend_for
from clusters.models import Cluster
from clusters.services.ownership import ClusterUnreachable
from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, NotFound, Refused
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, TenantKind
from tenants.models.names import is_reserved


class NamespaceUnchanged(Refused):
    """The namespace stays as it is."""

    code = "NAMESPACE_KEPT"
    title = gettext_lazy("Namespace not adopted")


@dataclass(frozen=True, slots=True)
class NamespaceRow:
    """A workspace, and the owner of the namespace of its name in a cluster."""

    workspace: str
    state: NamespaceState


def namespace_list(*, acting_user: Actor, cluster: Cluster) -> Sequence[NamespaceRow]:
    """Return every workspace that is not archived, by name. Raises: PermissionDenied; ClusterUnreachable."""
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    backend = backend_for(cluster)
    workspaces = Tenant.unscoped.filter(kind=TenantKind.WORKSPACE, archived_at=None).order_by("slug")
    try:
        return [NamespaceRow(one.slug, backend.namespace_state(one.slug, str(one.pk))) for one in workspaces]
    except BackendUnavailable as error:
        raise ClusterUnreachable(str(error)) from error


def namespace_adopt(
    *, acting_user: Actor, cluster: Cluster, workspace: Tenant, kubeconfig: str = ""
) -> NamespaceState:
    """Hand the namespace of a workspace's name, with all that is in it, over to the workspace.

    Users who may submit jobs there may use every secret, config map and claim in it from then on.
    `kubeconfig` is a file with the rights of the cluster's administrator, if the platform's own account may
    not do it. Returns the previous owner. Raises: PermissionDenied; NotFound; Conflict if it is the
    workspace's already; NamespaceUnchanged for a namespace that is never a workspace's, or if the cluster
    refuses the change; ClusterUnreachable.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    name = workspace.slug
    if is_reserved(name):
        raise NamespaceUnchanged(
            _("Namespace %(name)s belongs to Kubernetes or the platform.") % {"name": name}
        )
    connection = {"kind": "kubeconfig", "path": kubeconfig} if kubeconfig else cluster.connection
    backend = backend_for(Cluster(name=cluster.name, backend=cluster.backend, connection=connection))
    try:
        before = backend.namespace_state(name, str(workspace.pk))
    except BackendUnavailable as error:
        raise ClusterUnreachable(str(error)) from error
    if before == NamespaceState.ABSENT:
        raise NotFound(
            _("Namespace %(name)s not found. The workspace's first job creates it.") % {"name": name}
        )
    if before == NamespaceState.OWN:
        message = _("Namespace %(name)s already belongs to the workspace") % {"name": name}
        raise Conflict(message, code="NAMESPACE_OWN")
    try:
        backend.namespace_adopt(name, str(workspace.pk))
    except BackendUnavailable as error:
        message = _(
            "Denied by the cluster: %(message)s. Use the kubeconfig of a cluster admin: --kubeconfig FILE"
        )
        raise NamespaceUnchanged(message % {"message": error}) from error
    audit_log.record_action(
        acting_user,
        "cluster.namespace_adopt",
        entity="cluster",
        entity_id=cluster.pk,
        before={"namespace": name, "state": before},
        after={"namespace": name, "state": NamespaceState.OWN, "workspace": str(workspace.pk)},
    )
    return before
