"""The identity of a cluster and of the platform that manages it: a ConfigMap that every platform reads before
it acts.

It is in the namespace of the platform's account, where tenants have no rights.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from clusters.backends.base import BackendUnavailable, Owner
from clusters.backends.kubernetes.client.api import Json, KubernetesApi, RequestRefused
from clusters.backends.kubernetes.pods.pods import own_labels

NAMESPACE: Final = "allotment"
NAME: Final = "allotment-owner"
_NAMESPACES: Final = "/api/v1/namespaces"
_CONFIGMAPS: Final = f"{_NAMESPACES}/{NAMESPACE}/configmaps"
_NOT_FOUND, _CONFLICT = 404, 409


def read_identity(api: KubernetesApi) -> str:
    """Read the uid of `kube-system`, a namespace that cannot be recreated. Raises: BackendUnavailable."""
    return str(api.get(f"{_NAMESPACES}/kube-system")["metadata"]["uid"])


def read_owner(api: KubernetesApi) -> Owner | None:
    """Read the owner object; None if there is none. Raises: BackendUnavailable."""
    try:
        found = api.get(f"{_CONFIGMAPS}/{NAME}")
    except RequestRefused as error:
        if error.status != _NOT_FOUND:
            raise
        return None
    data = found.get("data") or {}
    try:
        at = datetime.fromisoformat(data["at"])
    except (KeyError, ValueError):
        at = datetime.fromisoformat(found["metadata"]["creationTimestamp"])
    return Owner(
        installation=data.get("installation", ""),
        token=data.get("token", ""),
        host=data.get("host", ""),
        at=at,
        version=found["metadata"]["resourceVersion"],
    )


def write_owner(api: KubernetesApi, wanted: Owner) -> None:
    """Create the object, or replace that of `wanted.version`. Raises: BackendUnavailable."""
    data = {
        "installation": wanted.installation,
        "token": wanted.token,
        "host": wanted.host,
        "at": wanted.at.isoformat(),
    }
    metadata: Json = {"name": NAME, "namespace": NAMESPACE, "labels": own_labels(api.installation)}
    try:
        if wanted.version:
            metadata["resourceVersion"] = wanted.version
            api.patch(f"{_CONFIGMAPS}/{NAME}", {"metadata": metadata, "data": data})
        else:
            _create(api, {"metadata": metadata, "data": data})
    except RequestRefused as error:
        if error.status != _CONFLICT:
            raise
        raise BackendUnavailable("another platform has just taken ownership of this cluster") from error


def remove_owner(api: KubernetesApi) -> None:
    """Remove the object; absent is done. Raises: BackendUnavailable."""
    try:
        api.delete(f"{_CONFIGMAPS}/{NAME}", {})
    except RequestRefused as error:
        if error.status != _NOT_FOUND:
            raise


def _create(api: KubernetesApi, body: Json) -> None:
    try:
        api.create_object(_CONFIGMAPS, body)
    except RequestRefused as error:
        if error.status != _NOT_FOUND:
            raise
        # Without the platform's label, which would make the namespace a workspace's, with the rules for
        # those.
        api.create_object(_NAMESPACES, {"metadata": {"name": NAMESPACE}})
        api.create_object(_CONFIGMAPS, body)
