"""The namespace of a workspace, made when its first pod needs it, and what is in it from the start."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Final

from django.conf import settings

from clusters.backends.kubernetes.api import Api, Json, Refused
from clusters.backends.kubernetes.pods import SERVICE_ACCOUNT, own_labels

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
POLICIES: Final = "/apis/networking.k8s.io/v1"
_NOT_FOUND, _EXISTS = 404, 409

Body = tuple[str, str, Json]
"""The root of its interface, the plural of its kind, and the object itself."""


def namespace_labels(installation: str) -> dict[str, str]:
    """What the namespace of a workspace carries."""
    return {**own_labels(installation), **_RESTRICTED}


def account(installation: str) -> Body:
    """The account that pods run under: it may do nothing, and no token of it is mounted."""
    metadata = {"name": SERVICE_ACCOUNT, "labels": own_labels(installation)}
    return "/api/v1", "serviceaccounts", {"metadata": metadata, "automountServiceAccountToken": False}


def policy(installation: str) -> Body:
    """Who may talk to whom: in from the own workspace alone; out to anywhere but what is denied.

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


def namespace_found(api: Api, name: str) -> Json:
    """The namespace of a workspace, made when it is missing. Raises: Refused; BackendUnavailable."""
    address = f"/api/v1/namespaces/{name}"
    try:
        return api.get(address)
    except Refused as error:
        if error.status != _NOT_FOUND:
            raise
    namespace_ensure(api, name)
    return api.get(address)


def namespace_ensure(api: Api, name: str) -> None:
    """Make a namespace with its account and its policy. Raises: Refused; BackendUnavailable."""
    _create(
        api, "/api/v1/namespaces", {"metadata": {"name": name, "labels": namespace_labels(api.installation)}}
    )
    for root, kind, body in (account(api.installation), policy(api.installation)):
        _create(api, f"{root}/namespaces/{name}/{kind}", body)


def _create(api: Api, path: str, body: Json) -> None:
    try:
        api.create(path, body)
    except Refused as error:
        if error.status != _EXISTS:
            raise
