"""A cluster with Kueue: pods as on any other Kubernetes cluster, admission by Kueue."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from clusters.backends.kubernetes import KubernetesBackend
from clusters.backends.kubernetes.permissions import PLATFORM_RULES, AccessRule
from clusters.backends.kueue.delegate import KueueDelegate
from clusters.models import Cluster

_GROUP: Final = "kueue.x-k8s.io"
_OBJECTS: Final = ("resourceflavors", "workloadpriorityclasses", "cohorts", "clusterqueues", "localqueues")
# The permissions of `deploy/kubernetes/kueue.yaml`.
KUEUE_RULES: Final = (
    *(AccessRule(_GROUP, kind, ("get", "list", "create", "patch", "delete")) for kind in _OBJECTS),
    AccessRule(_GROUP, "workloads", ("get", "list", "watch", "create", "patch", "delete")),
    AccessRule(_GROUP, "workloads/status", ("patch",)),
)


class KueueBackend(KubernetesBackend):
    """Kueue decides which jobs start and which are evicted; the platform chooses nodes and cards of admitted
    jobs.

    So parts of cards, placement policies and one holder per card work as elsewhere, and no pod has two
    schedulers. Kueue's charge for a workload is fixed while it runs, so nothing is resized.
    Raises: BackendUnavailable when the connection can't be opened.
    """

    capabilities = replace(KubernetesBackend.capabilities, admits=True, resize=False)
    access_rules = PLATFORM_RULES + KUEUE_RULES

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.delegate = KueueDelegate(self._api, str(cluster.pk))
