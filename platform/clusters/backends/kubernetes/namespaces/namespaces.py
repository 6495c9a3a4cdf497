"""The namespace of a workspace, made when its first pod needs it, and what is in it from the start."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Final

from django.conf import settings

from clusters.backends.kubernetes.client.api import Json, KubernetesApi, ObjectNameTaken, RequestRefused
from clusters.backends.kubernetes.pods.pods import MANAGED, SERVICE_ACCOUNT, is_of_another, own_labels

# Pods of tenants may not leave their sandbox, whatever their images would like.
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
"""Where clouds hand out the credentials of the node to whoever asks from it."""
_EVERYWHERE: Final = {4: "0.0.0.0/0", 6: "::/0"}
WORKSPACE: Final = "allotment.io/workspace"
"""The label of a namespace that holds the id of the workspace that it is for."""
NOT_OWNED: Final = "NAMESPACE_NOT_OWNED"
NAMESPACES: Final = "/api/v1/namespaces"
POLICIES: Final = "/apis/networking.k8s.io/v1"
_NOT_FOUND, _EXISTS = 404, 409

Body = tuple[str, str, Json]
"""The root of its interface, the plural of its kind, and the object itself."""


def namespace_labels(installation: str, workspace: str) -> dict[str, str]:
    """Return the labels of the namespace of a workspace, of which the id is given."""
    return {**own_labels(installation), WORKSPACE: workspace, **_RESTRICTED}


def build_service_account(installation: str) -> Body:
    """The account that pods run under: it may do nothing, and no token of it is mounted."""
    metadata = {"name": SERVICE_ACCOUNT, "labels": own_labels(installation)}
    return "/api/v1", "serviceaccounts", {"metadata": metadata, "automountServiceAccountToken": False}


def build_network_policy(installation: str) -> Body:
    """Build the network policy: ingress from the own workspace alone, egress to all but denied addresses.

    Jobs read data and models from wherever these are, so what goes out is open. The addresses where clouds
    hand out the credentials of a node are not, nor what the installation denies beside them. Names may be
    looked up wherever they are served.
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
    """The namespace of a workspace, made when it is missing, before anything is made in it.

    Raises: Elsewhere if it is not the workspace's; Refused; BackendUnavailable.
    """
    try:
        found = api.get(f"{NAMESPACES}/{name}")
    except RequestRefused as error:
        if error.status != _NOT_FOUND:
            raise
        return namespace_ensure(api, name, workspace)
    return check_owned(api, found, workspace)


def namespace_ensure(api: KubernetesApi, name: str, workspace: str) -> Json:
    """Make the namespace of a workspace, or see that it is one, with its account and its policy.

    Raises: Elsewhere if it is not the workspace's, and then nothing is made in it; Refused;
    BackendUnavailable.
    """
    labels = namespace_labels(api.installation, workspace)
    _create(api, NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    found = check_owned(api, api.get(f"{NAMESPACES}/{name}"), workspace)
    for root, kind, body in (build_service_account(api.installation), build_network_policy(api.installation)):
        _create(api, f"{root}/namespaces/{name}/{kind}", body)
    return found


def check_owned(api: KubernetesApi, namespace: Json, workspace: str) -> Json:
    """The namespace itself, if the platform keeps it for this workspace.

    The name alone says nothing: anybody may have made a namespace of that name, with secrets in it.
    Raises: Elsewhere.
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
    """Return whether the platform made a namespace before namespaces carried their owner."""
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
