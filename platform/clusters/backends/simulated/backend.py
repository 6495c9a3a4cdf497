"""The backend for simulated clusters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from clusters.backends.base import (
    Capabilities,
    ClusterBackend,
    DeviceGrant,
    DeviceSample,
    Inventory,
    ObservedBatch,
    PodEvent,
    PodOutcome,
    TaskRef,
    TaskSpec,
)
from clusters.backends.simulated import events, faults, logs, pods, reports, resizing, samples, watch
from clusters.gpu.batches import AgentReport
from clusters.models import Cluster
from foundation.core.errors import NotFound


class SimulatedBackend(ClusterBackend):
    """A cluster in rows. Every call first carries out the transitions that are due in simulated time.

    All calls raise `BackendUnavailable` if the cluster is not built or was made unreachable.
    """

    capabilities = Capabilities(slices=True, bind=True, resize=True, logs=True)

    def __init__(self, cluster: Cluster) -> None:
        self._cluster_id = cluster.pk

    def read_inventory(self) -> Inventory:
        return watch.read_inventory(self._cluster_id)

    def ensure_pod(self, spec: TaskSpec) -> PodOutcome:
        return pods.ensure_many(self._cluster_id, [spec])[0]

    def remove_pod(self, ref: TaskRef, grace_s: int) -> PodOutcome:
        return pods.remove_many(self._cluster_id, [ref], grace_s)[0]

    def ensure_many(self, specs: Sequence[TaskSpec]) -> list[PodOutcome]:
        return pods.ensure_many(self._cluster_id, specs)

    def remove_many(self, refs: Sequence[TaskRef], grace_s: int) -> list[PodOutcome]:
        return pods.remove_many(self._cluster_id, refs, grace_s)

    def resize_devices(self, ref: TaskRef, devices: Sequence[DeviceGrant]) -> PodOutcome:
        return resizing.resize_devices(self._cluster_id, ref, devices)

    def mark_schedulable(self, node: str, *, schedulable: bool) -> PodOutcome:
        try:
            (faults.node_uncordon if schedulable else faults.node_cordon)(self._cluster_id, node)
        except NotFound as error:
            return PodOutcome.of_refusal("NotFound", str(error.detail))
        return PodOutcome.of_success()

    def observe_pods(self, cursor: str | None, *, whole: bool = False) -> ObservedBatch:
        return watch.observe_pods(self._cluster_id, None if whole else cursor)

    def list_pod_events(self, refs: Sequence[TaskRef]) -> list[PodEvent]:
        return events.list_pod_events(self._cluster_id, refs)

    def read_samples(self) -> Iterable[DeviceSample]:
        return samples.read_samples(self._cluster_id)

    def read_reports(self) -> Sequence[AgentReport]:
        return reports.read_reports(self._cluster_id)

    def read_logs(
        self,
        ref: TaskRef,
        *,
        follow: bool = False,
        since: datetime | None = None,
        last: int | None = None,
    ) -> Iterator[str]:
        return logs.read_logs(self._cluster_id, ref, follow=follow, since=since, last=last)
