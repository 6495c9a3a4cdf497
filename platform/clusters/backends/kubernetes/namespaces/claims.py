"""The persistent volume claims in the namespace of a workspace, which its pods may mount."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from clusters.backends.base import BackendUnavailable, NamespaceNotOwned
from clusters.backends.kubernetes.client.api import Denied, Json, KubernetesApi, RequestRefused
from clusters.backends.kubernetes.client.workers import Workers
from clusters.backends.kubernetes.namespaces.namespaces import NAMESPACES, is_owned
from clusters.backends.kubernetes.namespaces.provisioning import (
    SELECTED_NODE,
    add_provisioning,
    claims_path,
    is_selected_here,
)
from clusters.backends.volumes import NodeTerms, VolumeClaim

_VOLUMES: Final = "/api/v1/persistentvolumes"
_VOLUME_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_NOT_FOUND: Final = 404


def list_volume_claims(api: KubernetesApi, namespace: str, workspace: str) -> list[VolumeClaim] | None:
    """Return the claims by name; None if the namespace is missing.

    Raises: BackendUnavailable, as NamespaceNotOwned if the namespace belongs to another owner.
    """
    try:
        found = api.get(f"{NAMESPACES}/{namespace}")
    except RequestRefused as error:
        if error.status == _NOT_FOUND:
            return None
        raise
    # The namespace may belong to another owner, whose claims the workspace may not see.
    if not is_owned(api, found, workspace):
        raise NamespaceNotOwned(f"namespace {namespace} does not belong to the workspace")
    items, _ = api.list_objects(claims_path(namespace))
    claims = sorted((_claim(item) for item in items), key=lambda claim: claim.name)
    unbound = {claim.name for claim in claims if claim.phase == "Pending" and not claim.volume}
    return add_provisioning(api, namespace, claims, unbound)


def read_volume_terms(api: KubernetesApi, volumes: Sequence[str]) -> Mapping[str, NodeTerms | None]:
    """Return the required node affinity of volumes by name, without those that can't be read.

    None: no such volume. Names that no volume can have are not requested: the creator of a claim chooses the
    name of its volume, and as part of a path it could name another resource.
    Raises: BackendUnavailable, as AccessDenied where no volume may be read.
    """
    asked = [name for name in volumes if _VOLUME_NAME.fullmatch(name)]
    with Workers() as workers:
        found = dict(zip(asked, workers.map(partial(_read_terms, api), asked), strict=True))
    denied = [answer for answer in found.values() if isinstance(answer, Denied)]
    if denied and len(denied) == len(found):
        raise denied[0]
    read = {name: answer for name, answer in found.items() if not isinstance(answer, BackendUnavailable)}
    return dict.fromkeys(set(volumes) - found.keys()) | read


def _read_terms(api: KubernetesApi, name: str) -> NodeTerms | BackendUnavailable | None:
    """Return the terms of a volume, or the error, so that one failure does not affect other volumes."""
    try:
        return _terms(api.get(f"{_VOLUMES}/{name}"))
    except RequestRefused as error:
        return None if error.status == _NOT_FOUND else error
    except BackendUnavailable as error:
        return error


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
        selected_here=is_selected_here(item),
        version=item["metadata"]["resourceVersion"],
    )
