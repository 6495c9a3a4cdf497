"""Keeps the namespaces of workspaces in clusters in the wanted state: limits follow from quota."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace

import structlog

from clusters.backends.base import BackendUnavailable, TenantLimits
from clusters.gpu.named import counted_profile
from clusters.models import Cluster, Device, Flavor, GpuMode
from clusters.services.ownership import backend_confirmed
from foundation.audit import audit_log
from foundation.core.actor import SYSTEM
from foundation.core.flavor_resource import FlavorResource
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from quotas.models import Queue
from quotas.selectors.limits.tree import load_tree
from scheduling.models import Allocation

log = structlog.get_logger(__name__)


def govern_clusters() -> None:
    """Update the namespaces of every cluster; a cluster that does not answer is skipped."""
    for cluster in Cluster.unscoped.order_by("id"):
        try:
            ensure_namespaces(cluster)
        except BackendUnavailable as error:
            log.warning("cluster did not answer", cluster=cluster.name, error=str(error))


def ensure_namespaces(cluster: Cluster) -> bool:
    """Update the namespaces of one cluster; return whether anything had to be changed.

    Raises: BackendUnavailable.
    """
    backend, limits = backend_confirmed(cluster), list(limits_of(cluster))
    done = backend.ensure_namespaces(limits)
    if done.unmarked and (known := list(_used(cluster, limits, done.unmarked))):
        marked = backend.ensure_namespaces(known)
        done = replace(
            marked,
            created=(*done.created, *marked.created),
            repaired={**done.repaired, **marked.repaired},
            refused={**done.refused, **marked.refused},
        )
    for name in done.unmarked:
        log.warning("namespace is not marked as a workspace's", cluster=cluster.name, namespace=name)
    for name, message in done.refused.items():
        log.warning("cluster is out of step", cluster=cluster.name, object=name, why=message)
    if not done.created and not done.repaired:
        return False
    changed = {
        f"{name}.{field}": pair for name, fields in done.repaired.items() for field, pair in fields.items()
    }
    audit_log.record_action(
        SYSTEM,
        "cluster.repair",
        entity="cluster",
        entity_id=cluster.pk,
        before={field: found for field, (found, _) in changed.items()},
        after={
            "created": list(done.created),
            "repaired": list(done.repaired),
            **{field: wanted for field, (_, wanted) in changed.items()},
        },
    )
    return True


@row_scope.whole()
def limits_of(cluster: Cluster) -> Iterator[TenantLimits]:
    """Yield the most that the queues of each workspace could hold in a cluster without any other workspace.

    The maxima of queues are added up, although queues may borrow the same cards: quota that a queue does not
    lend is not visible in its parent, and the sum must never be too small.
    """
    tree = load_tree(cluster.cell_id)
    flavors = list(Flavor.unscoped.filter(cluster=cluster).order_by("id"))
    names = _counted_as(cluster)
    cards: defaultdict[str, Counter[str]] = defaultdict(Counter)
    unlimited: set[tuple[str, str]] = set()
    owners: dict[str, str] = {}
    queues = Queue.unscoped.filter(cell=cluster.cell_id).order_by("workspace__slug", "id")
    for namespace, workspace, node in queues.values_list("workspace__slug", "workspace_id", "node_id"):
        owners[namespace] = str(workspace)
        for flavor in flavors:
            most = tree.potential(str(node), FlavorResource(str(flavor.pk), Resource.GPU_CARDS))
            for name in names.get(flavor.pk, {""}):
                cards[namespace][name] += most or 0
                if most is None:
                    unlimited.add((namespace, name))
    for namespace, counts in cards.items():
        limited = {name: n for name, n in sorted(counts.items()) if (namespace, name) not in unlimited}
        yield TenantLimits(namespace, limited, owners[namespace])


@row_scope.whole()
def _used(
    cluster: Cluster, limits: Iterable[TenantLimits], unmarked: Container[str]
) -> Iterator[TenantLimits]:
    """Yield the workspaces that have allocations with pods in a namespace without an owner's label."""
    for item in limits:
        if item.namespace in unmarked:
            pods = Allocation.unscoped.filter(node__cluster=cluster, namespace=item.namespace)
            if pods.filter(attempt__job__workspace=uuid.UUID(item.workspace)).exclude(pod_uid="").exists():
                yield replace(item, used=True)


def _counted_as(cluster: Cluster) -> dict[uuid.UUID, set[str]]:
    """Return the profiles in the resource names of the nodes of each MIG flavor."""
    instances = Device.unscoped.filter(
        node__cluster=cluster, node__flavor__isnull=False, mode=GpuMode.MIG
    ).values_list("node__flavor", "uuid")
    found: defaultdict[uuid.UUID, set[str]] = defaultdict(set)
    for flavor, name in instances:
        found[flavor].add(counted_profile(name))
    return dict(found)
