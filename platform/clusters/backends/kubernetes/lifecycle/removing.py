"""Deletes pods, and checks whether they are gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clusters.backends.base import HOLD, BackendUnavailable, GangRef, PodOutcome, TaskRef
from clusters.backends.kubernetes.client.api import Json, KubernetesApi, RequestRefused
from clusters.backends.kubernetes.client.workers import Workers
from clusters.backends.kubernetes.lifecycle.gangs import gang_dissolve
from clusters.backends.kubernetes.pods import pods
from foundation.core import faults

_NOT_FOUND, _CONFLICT = 404, 409


def remove_many(api: KubernetesApi, refs: Sequence[TaskRef], grace_s: int) -> list[PodOutcome]:
    """Request the deletion of each pod; one outcome per reference, in their order."""
    with Workers() as workers:
        return list(workers.map(lambda ref: remove_pod(api, ref, grace_s), refs))


def remove_pod(api: KubernetesApi, ref: TaskRef, grace_s: int) -> PodOutcome:
    """Request the deletion of one pod; absent is done, and so is a successor of the same name."""
    options: dict[str, Any] = {"gracePeriodSeconds": max(grace_s, 0)}
    try:
        uid = ref.uid
        if not uid and ref.hold:
            found = pod_found(api, ref.namespace, ref.name)
            if found is None or not _is_meant(found, ref):
                return PodOutcome.of_success()
            uid = found["metadata"]["uid"]
        if uid:
            options["preconditions"] = {"uid": uid}
        deleted = api.delete(pods.pod_path(ref.namespace, ref.name), options)
        faults.fault_point("kubernetes.after_delete")
    except RequestRefused as error:
        if error.status in (_NOT_FOUND, _CONFLICT):
            return PodOutcome.of_success()
        return PodOutcome.of_refusal(error.reason or f"HTTP_{error.status}", error.message)
    except BackendUnavailable as error:
        return PodOutcome.of_unknown(str(error))
    return PodOutcome.of_success(str((deleted.get("metadata") or {}).get("uid") or ref.uid))


def pods_exist(api: KubernetesApi, refs: Sequence[TaskRef]) -> list[bool]:
    """Return whether each pod exists, read one by one. Raises: RequestRefused; BackendUnavailable."""
    with Workers() as workers:
        return list(workers.map(lambda ref: _is_there(api, ref), refs))


def _is_there(api: KubernetesApi, ref: TaskRef) -> bool:
    found = pod_found(api, ref.namespace, ref.name)
    return found is not None and _is_meant(found, ref)


def _is_meant(found: Json, ref: TaskRef) -> bool:
    """Return whether a pod of that name is the one that the reference names."""
    metadata = found["metadata"]
    if ref.uid:
        return bool(metadata["uid"] == ref.uid)
    return not ref.hold or (metadata.get("labels") or {}).get(HOLD, ref.hold) == ref.hold


def pod_found(api: KubernetesApi, namespace: str, name: str) -> Json | None:
    """Return the pod of that name, or None. Raises: RequestRefused; BackendUnavailable."""
    try:
        return api.get(pods.pod_path(namespace, name))
    except RequestRefused as error:
        if error.status != _NOT_FOUND:
            raise
        return None


def remove_gangs(api: KubernetesApi, gangs: Sequence[GangRef]) -> list[PodOutcome]:
    """Delete the shared objects of gangs; one outcome per reference, in their order."""
    with Workers() as workers:
        return list(workers.map(lambda ref: gang_dissolve(api, ref), gangs))
