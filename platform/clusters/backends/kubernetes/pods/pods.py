"""A task as a pod, and a pod as an observation."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from clusters.backends.base import GRACE_S, DeviceGrant, PodObservation, PodPhase, TaskRef, TaskSpec
from clusters.backends.kubernetes.client.api import Json
from clusters.backends.kubernetes.pods.containers import SpecInvalid, build_container, build_volumes
from clusters.gpu import hami
from clusters.gpu.named import counted_profile, is_named_by_node
from clusters.gpu.nvidia import CARD_RESOURCE, MIG_RESOURCE, PART_CORES_RESOURCE, PART_MEMORY_RESOURCE

SCHEDULER: Final = "allotment"
# Every installation of the platform puts this label on the objects that it makes in a cluster.
MANAGED: Final = {"app.kubernetes.io/managed-by": "allotment"}
INSTALLATION: Final = "allotment.io/installation"
SELECTOR: Final = ",".join(f"{key}={value}" for key, value in MANAGED.items())
_IDS: Final = {"run_as_user": "runAsUser", "run_as_group": "runAsGroup", "fs_group": "fsGroup"}
# A separate account: the namespace's default account appears some time after the namespace.
SERVICE_ACCOUNT: Final = "allotment-task"
_ENDED: Final = {"Succeeded": PodPhase.SUCCEEDED, "Failed": PodPhase.FAILED}
_SHARES: Final = {"GPU_CORE_UTILIZATION_POLICY": "force", "CUDA_TASK_PRIORITY": "1"}


def pod_path(namespace: str, name: str = "") -> str:
    """Return the path of a pod, or of all pods of a namespace."""
    return f"/api/v1/namespaces/{namespace}/pods" + (f"/{name}" if name else "")


def on_shares(spec: TaskSpec) -> bool:
    """Return whether the task holds cards, or parts of cards, that are chosen by the platform and not by the
    kubelet.
    """
    return bool(spec.devices) and not is_named_by_node(spec.devices[0].uuid)


def own_labels(installation: str) -> dict[str, str]:
    """Return the labels of all objects that the installation of that id makes in a cluster."""
    return {**MANAGED, INSTALLATION: installation}


def build_manifest(spec: TaskSpec, installation: str, owner: Json | None = None) -> Json:
    """Build the pod of a task, not yet bound to a node; `owner` is its gang's object. Raises: SpecInvalid."""
    shared = on_shares(spec)
    metadata: Json = {
        "name": spec.ref.name,
        "namespace": spec.ref.namespace,
        "labels": {**spec.labels, **own_labels(installation), **({hami.NODE: spec.node} if shared else {})},
    }
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    main = build_container(spec, _cards(spec.devices), _SHARES if shared else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _pod_spec(spec, main)}


def _pod_spec(spec: TaskSpec, main: Json) -> Json:
    found: Json = {
        "schedulerName": SCHEDULER,  # so that the cluster's own scheduler ignores it
        "restartPolicy": "Never",
        "serviceAccountName": SERVICE_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": spec.options.get("termination_grace_s", GRACE_S),
        "securityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            **{_IDS[key]: value for key, value in spec.options.get("security", {}).items()},
        },
        # The taints that the engine tolerated must be tolerated in the cluster, which evicts from tainted
        # nodes itself.
        "tolerations": list(spec.options.get("tolerations", ())),
        "imagePullSecrets": [{"name": name} for name in spec.options.get("image_pull_secrets", ())],
        "containers": [main],
        "volumes": build_volumes(spec),
    }
    if spec.gang is not None and spec.gang.size > 1:
        # From these, the gang's service gives the pod a DNS name for its peers.
        found |= {"hostname": spec.ref.name, "subdomain": spec.gang.name}
    return found


def _cards(devices: tuple[DeviceGrant, ...]) -> dict[str, str]:
    if not devices:
        return {}
    if is_named_by_node(devices[0].uuid):
        profile = counted_profile(devices[0].uuid)
        return {MIG_RESOURCE + profile if profile else CARD_RESOURCE: str(len(devices))}
    if len({(grant.cores, grant.memory_mib) for grant in devices}) > 1:
        # The limiter in the container applies the first card's share to all of its cards.
        raise SpecInvalid("every GPU of one task must be shared to the same part")
    first = devices[0]
    return {
        CARD_RESOURCE: str(len(devices)),
        PART_MEMORY_RESOURCE: str(first.memory_mib),
        PART_CORES_RESOURCE: str(first.cores),
    }


_ADDED: Final = frozenset((*MANAGED, INSTALLATION, hami.NODE))


def labels_of(pod: Json) -> dict[str, str]:
    """Return the labels that the task or the gang was given, without those that the platform adds."""
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    return {key: value for key, value in labels.items() if key not in _ADDED}


def read_observation(pod: Json, now: datetime, *, removed: bool = False) -> PodObservation:
    """Read the observation of a pod's object. `removed`: it was its last; `now` is when that was seen."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    container = (status.get("containerStatuses") or [{}])[0]
    state: Mapping[str, Any] = container.get("state") or {}
    ended, waiting = state.get("terminated") or {}, state.get("waiting") or {}
    phase = PodPhase.REMOVED if removed else _phase(status, state)
    return PodObservation(
        ref=TaskRef(metadata["namespace"], metadata["name"], metadata["uid"]),
        phase=phase,
        at=now if removed else _changed_at(pod, phase, state, now),
        labels=labels_of(pod),
        exit_code=ended.get("exitCode"),
        reason=status.get("reason") or ended.get("reason") or waiting.get("reason") or "",
        message=status.get("message") or ended.get("message") or waiting.get("message") or "",
        finalizers=tuple(metadata.get("finalizers") or ()) if metadata.get("deletionTimestamp") else (),
        node=pod["spec"].get("nodeName") or "",
    )


def _phase(status: Json, state: Mapping[str, Any]) -> PodPhase:
    if (ended := _ENDED.get(status.get("phase", ""))) is not None:
        return ended
    # Pods of a lost node become "Unknown": the last known state of the container still applies.
    if status.get("phase") == "Running" or "running" in state:
        return PodPhase.RUNNING
    return PodPhase.STARTING if state else PodPhase.PENDING


def _changed_at(pod: Json, phase: PodPhase, state: Mapping[str, Any], now: datetime) -> datetime:
    """Return when the pod entered its phase, as far as its object says; whole seconds, never in the
    future.
    """
    status = pod.get("status") or {}
    stated = {
        PodPhase.PENDING: pod["metadata"].get("creationTimestamp"),
        PodPhase.STARTING: status.get("startTime"),
        PodPhase.RUNNING: (state.get("running") or {}).get("startedAt"),
        PodPhase.SUCCEEDED: (state.get("terminated") or {}).get("finishedAt"),
        PodPhase.FAILED: (state.get("terminated") or {}).get("finishedAt") or status.get("startTime"),
    }.get(phase)
    return min(datetime.fromisoformat(stated), now) if stated else now


def has_ended(pod: Json) -> bool:
    """Return whether the pod's containers have ended, so that it holds no card any more."""
    return (pod.get("status") or {}).get("phase") in _ENDED


def is_of_another(found: Json, installation: str) -> bool:
    """Return whether an object names another installation as its creator; older objects without the label
    name none.
    """
    labels: Mapping[str, str] = found["metadata"].get("labels") or {}
    return labels.get(INSTALLATION, installation) != installation


def is_ours(pod: Json) -> bool:
    """Return whether an installation of the platform made the pod."""
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    return MANAGED.items() <= labels.items()
