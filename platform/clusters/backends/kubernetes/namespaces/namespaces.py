"""The namespace of a workspace, created when its first pod needs it, with its initial objects."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Final

from django.conf import settings

from clusters.backends.kubernetes.client.api import Json, KubernetesApi, ObjectNameTaken, RequestRefused
from clusters.backends.kubernetes.pods.pods import MANAGED, SERVICE_ACCOUNT, is_of_another, own_labels

# Pods of tenants may not leave their sandbox, even if their images are built to.
_RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}
METADATA: Final = (
    # Link-local: AWS, Azure, Google, Oracle, OpenStack and most others; with the credentials of AWS's tasks
    # and pods, and kube-proxy's and DNS caches' own addresses.
    *("169.254.0.0/16", "fe80::/10"),
    "fd00:ec2::/32",  # AWS over IPv6
    "fd20:ce::254/128",  # Google over IPv6
    "fd00:c1::a9fe:a9fe/128",  # Oracle over IPv6
    "fd00:42::42/128",  # Scaleway over IPv6
    "100.100.100.200/32",  # Alibaba
    "192.0.0.192/32",  # Oracle's older regions
    "168.63.129.16/32",  # Azure's host, which hands out settings and certificates of extensions
)
"""The addresses at which clouds serve the node's credentials to any process on the node."""
_EVERYWHERE: Final = {4: "0.0.0.0/0", 6: "::/0"}
WORKSPACE: Final = "allotment.io/workspace"
"""The label of a namespace with the id of its workspace."""
NOT_OWNED: Final = "NAMESPACE_NOT_OWNED"
NAMESPACES: Final = "/api/v1/namespaces"
POLICIES: Final = "/apis/networking.k8s.io/v1"
_NOT_FOUND, _EXISTS = 404, 409

Body = tuple[str, str, Json]
"""The root of its API, the plural of its kind, and the object itself."""


def namespace_labels(installation: str, workspace: str) -> dict[str, str]:
    """Return the labels of the namespace of a workspace, which is given by its id."""
    return {**own_labels(installation), WORKSPACE: workspace, **_RESTRICTED}


def build_service_account(installation: str) -> Body:
    """Build the account that pods run under: it has no permissions, and no token of it is mounted."""
    metadata = {"name": SERVICE_ACCOUNT, "labels": own_labels(installation)}
    return "/api/v1", "serviceaccounts", {"metadata": metadata, "automountServiceAccountToken": False}


def build_network_policy(installation: str) -> Body:
    """Build the network policy: ingress from the own workspace alone, egress to all but denied addresses.

    Jobs read data and models from any address, so egress is open, except to the addresses where clouds serve
    the credentials of a node and to those that the installation denies. DNS names may be resolved by any
    server.
    """
    denied = dict.fromkeys(ip_network(text) for text in (*METADATA, *settings.ALLOTMENT_DENIED_NETWORKS))
    outside = [
        {"ipBlock": {"cidr": everywhere, "except": [str(net) for net in denied if net.version == version]}}
        for version, everywhere in _EVERYWHERE.items()
    ]
    names = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    spec: Json = {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": {}}]}],
        "egress": [{"to": [{"podSelector": {}}]}, {"to": outside}, {"ports": names}],
    }
    metadata = {"name": "allotment", "labels": own_labels(installation)}
    return POLICIES, "networkpolicies", {"metadata": metadata, "spec": spec}


def namespace_found(api: KubernetesApi, name: str, workspace: str) -> Json:
    """Return the namespace of a workspace; it is created if it is missing.

    Raises: ObjectNameTaken if it is not the workspace's; RequestRefused; BackendUnavailable.
    """
    try:
        found = api.get(f"{NAMESPACES}/{name}")
    except RequestRefused as error:
        if error.status != _NOT_FOUND:
            raise
        return namespace_ensure(api, name, workspace)
    return check_owned(api, found, workspace)


def namespace_ensure(api: KubernetesApi, name: str, workspace: str) -> Json:
    """Create the namespace of a workspace, or check an existing one, with its account and its policy.

    Raises: ObjectNameTaken if it is not the workspace's, and then nothing is created in it; RequestRefused;
    BackendUnavailable.
    """
    labels = namespace_labels(api.installation, workspace)
    _create(api, NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    found = check_owned(api, api.get(f"{NAMESPACES}/{name}"), workspace)
    for root, kind, body in (build_service_account(api.installation), build_network_policy(api.installation)):
        _create(api, f"{root}/namespaces/{name}/{kind}", body)
    return found


def check_owned(api: KubernetesApi, namespace: Json, workspace: str) -> Json:
    """Return the namespace, if the platform keeps it for this workspace.

    The name proves nothing: any user of the cluster may have created a namespace of that name, with secrets.
    Raises: ObjectNameTaken.
    """
    if is_owned(api, namespace, workspace):
        return namespace
    name = namespace["metadata"]["name"]
    raise ObjectNameTaken(
        NOT_OWNED,
        f"namespace {name} was there before and is not the workspace's; nothing is made in it. A platform "
        f"admin hands it over: allotment namespace adopt {api.cluster} {name}",
    )


def is_owned(api: KubernetesApi, namespace: Json, workspace: str) -> bool:
    """Return whether a namespace carries the labels by which this installation owns it for the workspace."""
    labels = namespace["metadata"].get("labels") or {}
    return (
        bool(workspace) and own_labels(api.installation).items() | {(WORKSPACE, workspace)} <= labels.items()
    )


def is_unmarked(api: KubernetesApi, namespace: Json) -> bool:
    """Return whether the platform made a namespace before namespaces had an owner's label."""
    labels = namespace["metadata"].get("labels") or {}
    return (
        MANAGED.items() <= labels.items()
        and WORKSPACE not in labels
        and not is_of_another(namespace, api.installation)
    )


def _create(api: KubernetesApi, path: str, body: Json) -> None:
    try:
        api.create_object(path, body)
    except RequestRefused as error:
        if error.status != _EXISTS:
            raise
