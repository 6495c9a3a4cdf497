"""The backend for Kubernetes clusters."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from clusters.backends.base import (
    BackendUnavailable,
    Capabilities,
    ClusterBackend,
    DeviceGrant,
    DeviceSample,
    GangRef,
    Governed,
    Inventory,
    NamespaceState,
    ObservedBatch,
    Owner,
    PodEvent,
    PodOutcome,
    TaskRef,
    TaskSpec,
    TenantLimits,
)
from clusters.backends.kubernetes.client.api import KubernetesApi
from clusters.backends.kubernetes.client.breaker import CircuitBreaker
from clusters.backends.kubernetes.client.connection import open_client
from clusters.backends.kubernetes.lifecycle import gangs, placing, removing, watch
from clusters.backends.kubernetes.namespaces import claims, owning, provisioning, tenants
from clusters.backends.kubernetes.nodes import agents, cordoning, resizing
from clusters.backends.kubernetes.permissions import PLATFORM_RULES, AccessRule, find_missing_permissions
from clusters.backends.kubernetes.pods import events, logs
from clusters.backends.volumes import NodeTerms, VolumeClaim
from clusters.models import Cluster
from foundation.models.installation import installation_id

_CHECKED: Final = "/api/v1/namespaces/default"
_CHECK_S: Final = 2.0


class KubernetesBackend(ClusterBackend):
    """Pods with the platform's scheduler name, bound by it; whole cards, and parts of cards on HAMi nodes.

    Raises: BackendUnavailable when the connection can't be opened.
    """

    capabilities = Capabilities(
        slices=True, mig=True, bind=True, resize=True, logs=True, gangs=True, owned=True, claims=True
    )
    access_rules: tuple[AccessRule, ...] = PLATFORM_RULES

    def __init__(self, cluster: Cluster) -> None:
        connection = json.dumps(cluster.connection, sort_keys=True)
        self._api = _api(cluster.name, connection, str(installation_id()), os.getpid())

    def check_connection(self) -> None:
        """Read one object from the store behind the API server, which a watch can do without.

        One slow answer does not count as an outage.
        """
        try:
            self._api.check_object(_CHECKED, _CHECK_S)
        except BackendUnavailable:
            self._api.check_object(_CHECKED, _CHECK_S)

    def list_missing_permissions(self) -> tuple[str, ...] | None:
        return find_missing_permissions(self._api, self.access_rules)

    def read_inventory(self) -> Inventory:
        return watch.read_inventory(self._api)

    def ensure_pod(self, spec: TaskSpec) -> PodOutcome:
        return placing.ensure_many(self._api, [spec])[0]

    def remove_pod(self, ref: TaskRef, grace_s: int) -> PodOutcome:
        return removing.remove_pod(self._api, ref, grace_s)

    def ensure_many(self, specs: Sequence[TaskSpec]) -> list[PodOutcome]:
        return placing.ensure_many(self._api, specs)

    def remove_many(self, refs: Sequence[TaskRef], grace_s: int) -> list[PodOutcome]:
        return removing.remove_many(self._api, refs, grace_s)

    def resize_devices(self, ref: TaskRef, devices: Sequence[DeviceGrant]) -> PodOutcome:
        return resizing.resize_devices(self._api, ref, devices)

    def mark_schedulable(self, node: str, *, schedulable: bool) -> PodOutcome:
        return cordoning.mark_schedulable(self._api, node, schedulable=schedulable)

    def remove_gangs(self, gangs: Sequence[GangRef]) -> list[PodOutcome]:
        return removing.remove_gangs(self._api, gangs)

    def list_gangs(self) -> list[tuple[GangRef, Mapping[str, str]]]:
        return gangs.list_gangs(self._api)

    def observe_pods(self, cursor: str | None, *, whole: bool = False) -> ObservedBatch:
        return watch.observe_pods(self._api, cursor, whole=whole)

    def read_identity(self) -> str:
        return owning.read_identity(self._api)

    def read_owner(self) -> Owner | None:
        return owning.read_owner(self._api)

    def write_owner(self, owner: Owner) -> None:
        owning.write_owner(self._api, owner)

    def remove_owner(self) -> None:
        owning.remove_owner(self._api)

    def pods_exist(self, refs: Sequence[TaskRef]) -> list[bool]:
        return removing.pods_exist(self._api, refs)

    def list_objects(self, kind: str) -> list[Mapping[str, Any]]:
        items, _ = self._api.list_objects(f"/api/v1/{kind}")
        return list(items)

    def ensure_namespaces(self, limits: Sequence[TenantLimits]) -> Governed:
        return tenants.ensure_namespaces(self._api, limits)

    def namespace_state(self, name: str, workspace: str) -> NamespaceState:
        return tenants.namespace_state(self._api, name, workspace)

    def namespace_adopt(self, name: str, workspace: str) -> None:
        tenants.adopt_namespace(self._api, name, workspace)

    def list_volume_claims(self, namespace: str, workspace: str) -> list[VolumeClaim] | None:
        return claims.list_volume_claims(self._api, namespace, workspace)

    def read_volume_terms(self, volumes: Sequence[str]) -> Mapping[str, NodeTerms | None]:
        return claims.read_volume_terms(self._api, volumes)

    def annotate_selected_node(self, namespace: str, claim: VolumeClaim, node: str) -> None:
        provisioning.annotate_selected_node(self._api, namespace, claim, node)

    def list_pod_events(self, refs: Sequence[TaskRef]) -> list[PodEvent]:
        return events.list_pod_events(self._api, refs)

    def list_claim_events(self, refs: Sequence[TaskRef]) -> list[PodEvent]:
        return events.list_claim_events(self._api, refs)

    def verify_agent(self, token: str, node: str) -> bool:
        return agents.verify_agent(self._api, token, node)

    def read_samples(self) -> Iterable[DeviceSample]:
        """Return nothing: the agents on the nodes report."""
        return ()

    def read_logs(
        self,
        ref: TaskRef,
        *,
        follow: bool = False,
        since: datetime | None = None,
        last: int | None = None,
    ) -> Iterator[str]:
        return logs.read_logs(self._api, ref, follow=follow, since=since, last=last)


@lru_cache(maxsize=64)
def _api(cluster: str, connection: str, installation: str, process: int) -> KubernetesApi:
    """Return one client and one breaker per cluster and process: connections do not survive a fork."""
    del process  # only a part of the cache key
    return KubernetesApi(cluster, open_client(json.loads(connection)), CircuitBreaker(), installation)
