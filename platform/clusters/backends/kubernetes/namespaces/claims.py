"""The persistent volume claims in the namespace of a workspace, which its pods may mount."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from clusters.backends.kubernetes.client.api import Json, KubernetesApi, RequestRefused
from clusters.backends.kubernetes.client.workers import Workers
from clusters.backends.kubernetes.namespaces.namespaces import NAMESPACES, is_owned
from clusters.backends.kubernetes.namespaces.provisioning import SELECTED_NODE, add_provisioning, claims_path
from clusters.backends.volumes import NodeTerms, VolumeClaim

_VOLUMES: Final = "/api/v1/persistentvolumes"
_NOT_FOUND: Final = 404


def list_volume_claims(api: KubernetesApi, namespace: str, workspace: str) -> list[VolumeClaim] | None:
    """Return the claims by name; None if the namespace is missing or belongs to another owner.

    Raises: BackendUnavailable.
    """
    try:
        found = api.get(f"{NAMESPACES}/{namespace}")
    except RequestRefused as error:
        if error.status == _NOT_FOUND:
            return None
        raise
    # A namespace of that name may be anybody's: its claims are not the workspace's to know.
    if not is_owned(api, found, workspace):
        return None
    items, _ = api.list_objects(claims_path(namespace))
    claims = sorted((_claim(item) for item in items), key=lambda claim: claim.name)
    unbound = {claim.name for claim in claims if claim.phase == "Pending" and not claim.volume}
    return add_provisioning(api, namespace, claims, unbound)


def read_volume_terms(api: KubernetesApi, volumes: Sequence[str]) -> Mapping[str, NodeTerms]:
    """Return the required node affinity of volumes by name, without those that don't exist.

    Raises: BackendUnavailable.
    """

    def read_volume(name: str) -> Json | None:
        try:
            return api.get(f"{_VOLUMES}/{quote(name, safe='')}")
        except RequestRefused as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    with Workers() as workers:
        found = list(workers.map(read_volume, volumes))
    return {name: _terms(item) for name, item in zip(volumes, found, strict=True) if item is not None}


def _terms(volume: Json) -> NodeTerms:
    affinity = (volume.get("spec") or {}).get("nodeAffinity") or {}
    required = affinity.get("required") or {}
    return [
        [*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())]
        for term in required.get("nodeSelectorTerms") or ()
    ]


def _claim(item: Json) -> VolumeClaim:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    requested = (spec.get("resources") or {}).get("requests") or {}
    return VolumeClaim(
        name=item["metadata"]["name"],
        size=(status.get("capacity") or {}).get("storage") or requested.get("storage") or "",
        access_modes=tuple(status.get("accessModes") or spec.get("accessModes") or ()),
        storage_class=spec.get("storageClassName") or "",
        phase=status.get("phase") or "",
        deleting="deletionTimestamp" in item["metadata"],
        volume=spec.get("volumeName") or "",
        selected_node=(item["metadata"].get("annotations") or {}).get(SELECTED_NODE, ""),
        version=item["metadata"]["resourceVersion"],
    )
