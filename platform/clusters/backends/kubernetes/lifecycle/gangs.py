"""The shared objects of the pods of one attempt: the object that owns them, and their name.

The owner is a ConfigMap: every gang may have one, it takes no resources of the cluster, and it holds the
files that the pods read, such as a hostfile. A ConfigMap holds 1 MiB: files that are larger together have one
each, owned by the first. It also owns a Service of the same name, for gangs of more than one pod; without an
address of its own the Service only makes the pods findable by name. Pods name the ConfigMap as their owner,
so that the cluster's garbage collector removes what is left when it is deleted.

A single pod without files is all that its attempt has in the cluster. So it has no such object, which would
cost as much to create and to delete as the pod itself, and names its namespace as owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from clusters.backends.base import BackendUnavailable, GangRef, GangSpec, PodOutcome
from clusters.backends.kubernetes.client.api import Json, KubernetesApi, ObjectNameTaken, RequestRefused
from clusters.backends.kubernetes.namespaces.making import ensure_object
from clusters.backends.kubernetes.pods.containers import config_maps
from clusters.backends.kubernetes.pods.pods import SELECTOR, is_of_another, labels_of, own_labels

_NOT_FOUND: Final = 404


def gang_ensure(api: KubernetesApi, namespace: str, workspace: str, gang: GangSpec) -> Json:
    """Return the owner of a gang's pods, with its files as they are now; it is created if it is missing.

    Raises: ObjectNameTaken if its name is taken, or the namespace is not the workspace's; RequestRefused;
    BackendUnavailable.
    """
    path = f"/api/v1/namespaces/{namespace}"
    first, *more = config_maps(gang).items()
    owner = _config_map(api, namespace, workspace, _metadata(api, namespace, gang), first[1])
    for name, files in more:
        owned = {"name": name, "ownerReferences": [owner_reference(owner)]}
        _config_map(api, namespace, workspace, {**_metadata(api, namespace, gang), **owned}, files)
    if gang.size > 1:
        service = _service(api, namespace, gang, owner)
        _ours(api, ensure_object(api, f"{path}/services", service, workspace), service)
    return owner


def _config_map(
    api: KubernetesApi, namespace: str, workspace: str, metadata: Json, files: Mapping[str, str]
) -> Json:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    wanted: Json = {"metadata": metadata, "data": dict(files)}
    found = _ours(api, ensure_object(api, path, wanted, workspace), wanted)
    there = found.get("data") or {}
    if there != wanted["data"]:
        removed = dict.fromkeys(there.keys() - wanted["data"].keys())
        api.patch(f"{path}/{metadata['name']}", {"data": {**wanted["data"], **removed}})
    return found


def gang_dissolve(api: KubernetesApi, ref: GangRef) -> PodOutcome:
    """Delete the owner, and with it all remaining objects of its gang; absent is done."""
    try:
        path = f"/api/v1/namespaces/{ref.namespace}/configmaps/{ref.name}"
        api.delete(path, {"propagationPolicy": "Background"})
    except RequestRefused as error:
        if error.status != _NOT_FOUND:
            return PodOutcome.of_refusal(error.reason or f"HTTP_{error.status}", error.message)
    except BackendUnavailable as error:
        return PodOutcome.of_unknown(str(error))
    return PodOutcome.of_success()


def list_gangs(api: KubernetesApi) -> list[tuple[GangRef, Mapping[str, str]]]:
    """Return the existing owners, with the labels of their gangs. Raises: BackendUnavailable."""
    owners, _ = api.list_objects("/api/v1/configmaps", labelSelector=SELECTOR)
    return [
        (GangRef(owner["metadata"]["namespace"], owner["metadata"]["name"]), labels_of(owner))
        for owner in owners
        if not owner["metadata"].get("ownerReferences")
    ]


def owner_reference(owner: Json) -> Json:
    """Return a controller reference to an owner: `kubectl drain` refuses to evict pods without one."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


def _service(api: KubernetesApi, namespace: str, gang: GangSpec, owner: Json) -> Json:
    return {
        "metadata": {**_metadata(api, namespace, gang), "ownerReferences": [owner_reference(owner)]},
        "spec": {
            "clusterIP": "None",
            "selector": dict(gang.labels),
            "publishNotReadyAddresses": True,  # the first pod waits for the last, and has to find it
        },
    }


def _metadata(api: KubernetesApi, namespace: str, gang: GangSpec) -> Json:
    labels = {**gang.labels, **own_labels(api.installation)}
    return {"name": gang.name, "namespace": namespace, "labels": labels}


def _ours(api: KubernetesApi, found: Json, wanted: Json) -> Json:
    if labels_of(found) != labels_of(wanted) or is_of_another(found, api.installation):
        name = f"{found['metadata']['namespace']}/{found['metadata']['name']}"
        raise ObjectNameTaken("NAME_TAKEN", f"an object {name} with other labels exists")
    return found
