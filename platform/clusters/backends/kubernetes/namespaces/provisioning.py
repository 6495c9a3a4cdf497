"""Reads how unbound volume claims get their volumes, and writes the node for which a volume is created.

Kubernetes leaves a claim of a storage class with `volumeBindingMode: WaitForFirstConsumer` unbound until
kube-scheduler has written the node of its first pod into an annotation of the claim. Allotment binds its pods
itself, so it writes the annotation as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from clusters.backends.kubernetes.client.api import Denied, Json, KubernetesApi, RequestRefused
from clusters.backends.kubernetes.namespaces.namespaces import NAMESPACES
from clusters.backends.kubernetes.permissions import AccessRule, is_allowed
from clusters.backends.volumes import NodeTerms, Provisioning, VolumeClaim

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
_CLAIMS: Final = AccessRule("", "persistentvolumeclaims", ("patch",))
_WAITS: Final = "WaitForFirstConsumer"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_MANAGER: Final = "allotment"
_NOT_FOUND, _CONFLICT = 404, 409
_Class = tuple[Provisioning, NodeTerms]


def claims_path(namespace: str, name: str = "") -> str:
    """Return the path of a claim, or of all claims of the namespace."""
    path = f"{NAMESPACES}/{namespace}/persistentvolumeclaims"
    return f"{path}/{quote(name, safe='')}" if name else path


def add_provisioning(
    api: KubernetesApi, namespace: str, claims: Sequence[VolumeClaim], unbound: Collection[str]
) -> list[VolumeClaim]:
    """Return the claims, with provisioning data on those named in `unbound`. Raises: BackendUnavailable."""
    if not unbound:
        return list(claims)
    classes = _list_classes(api)
    if classes is None:
        unread = Provisioning.CLASS_UNREAD
        return [
            replace(claim, provisioning=unread) if claim.name in unbound and claim.storage_class else claim
            for claim in claims
        ]
    used = {claim.storage_class for claim in claims if claim.name in unbound}
    waits = any(classes[name][0] is Provisioning.ON_DEMAND for name in used & classes.keys())
    if waits and not _may_select(api, namespace):
        denied = {Provisioning.ON_DEMAND: Provisioning.NOT_PERMITTED}
        classes = {name: (denied.get(found, found), terms) for name, (found, terms) in classes.items()}
    return [_with_class(claim, classes) if claim.name in unbound else claim for claim in claims]


def annotate_selected_node(api: KubernetesApi, namespace: str, claim: VolumeClaim, node: str) -> None:
    """Write the selected node of a claim, unless the claim was changed or deleted since it was read.

    Raises: BackendUnavailable.
    """
    body = {"metadata": {"resourceVersion": claim.version, "annotations": {SELECTED_NODE: node}}}
    try:
        api.patch(f"{claims_path(namespace, claim.name)}?fieldManager={_MANAGER}", body)
    except RequestRefused as error:
        if error.status not in (_NOT_FOUND, _CONFLICT):
            raise


def is_selected_here(claim: Json) -> bool:
    """Return whether the platform wrote the selected node of a claim, by the claim's managed fields."""
    field = f"f:{SELECTED_NODE}"
    return any(
        entry.get("manager") == _MANAGER
        and field in entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:annotations", {})
        for entry in claim["metadata"].get("managedFields") or ()
    )


def _with_class(claim: VolumeClaim, classes: Mapping[str, _Class]) -> VolumeClaim:
    found, terms = classes.get(claim.storage_class, (Provisioning.IMMEDIATE, []))
    return replace(claim, provisioning=found, topologies=terms)


def _list_classes(api: KubernetesApi) -> dict[str, _Class] | None:
    """Return how the volumes of each storage class are created, and for which nodes; None if that is denied.

    All classes are listed at once, because the creators of claims choose how many of them are named.
    """
    try:
        items, _ = api.list_objects(_CLASSES)
    except Denied:
        return None
    return {item["metadata"]["name"]: _class_of(item) for item in items}


def _class_of(item: Json) -> _Class:
    if item.get("volumeBindingMode") != _WAITS:
        return Provisioning.IMMEDIATE, []
    if item.get("provisioner") == _NO_PROVISIONER:
        return Provisioning.STATIC, []
    return Provisioning.ON_DEMAND, [_topology(term) for term in item.get("allowedTopologies") or ()]


def _topology(term: Json) -> list[Json]:
    return [
        {"key": item["key"], "operator": "In", "values": item["values"]}
        for item in term.get("matchLabelExpressions") or ()
    ]


def _may_select(api: KubernetesApi, namespace: str) -> bool:
    """Return whether the platform's account may patch claims of the namespace."""
    try:
        return is_allowed(api, "patch", _CLAIMS, namespace)
    except Denied:
        return False
