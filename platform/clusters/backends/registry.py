"""The backend of each kind of cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.backends.base import BackendUnavailable, Capabilities, ClusterBackend
from clusters.backends.delegation import Delegate
from clusters.models import BackendKind, Cluster, ClusterHealth
from foundation.core.errors import AllotmentError

# By import path, because most processes never need the slow imports of these modules.
_FACTORIES: Final[dict[str, str]] = {
    BackendKind.SIMULATED: "clusters.backends.simulated.SimulatedBackend",
    BackendKind.KUBERNETES: "clusters.backends.kubernetes.KubernetesBackend",
    BackendKind.KUEUE: "clusters.backends.kueue.KueueBackend",
}


class BackendMissing(AllotmentError):
    """The cluster is of a kind that this installation does not support."""

    code = "BACKEND_MISSING"
    title = gettext_lazy("Cluster type not available")
    status = 501


def backend_for(cluster: Cluster, *, disowned_too: bool = False) -> ClusterBackend:
    """Return the backend of a cluster; `disowned_too`: even if another platform manages it.

    Raises: BackendMissing, which names the kind and the available ones; BackendUnavailable for a cluster that
    is not ours to use, and if the connection can't be opened.
    """
    if cluster.health == ClusterHealth.DISOWNED and not disowned_too:
        raise BackendUnavailable(cluster.health_message)
    name = _FACTORIES.get(cluster.backend)
    if name is None:
        known = ", ".join(sorted(_FACTORIES))
        message = _("Cluster %(name)s: backend %(kind)s isn't available. Valid: %(known)s")
        raise BackendMissing(message % {"name": cluster.name, "kind": cluster.backend, "known": known})
    factory: Callable[[Cluster], ClusterBackend] = import_string(name)
    return factory(cluster)


def capabilities_for(cluster: Cluster) -> Capabilities:
    """Return the capabilities of a cluster's backend without a connection; none for an unavailable kind."""
    name = _FACTORIES.get(cluster.backend)
    if name is None:
        return Capabilities()
    capabilities: Capabilities = import_string(name).capabilities
    return capabilities


def delegate_for(cluster: Cluster) -> Delegate:
    """Return the admission engine of a cluster that admits by itself.

    Raises: BackendMissing; BackendUnavailable if the connection can't be opened.
    """
    delegate = getattr(backend_for(cluster), "delegate", None)
    if not isinstance(delegate, Delegate):
        raise BackendMissing(_("Cluster %(name)s has no built-in scheduler") % {"name": cluster.name})
    return delegate
