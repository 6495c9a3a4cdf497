"""The network policy of a workspace, evaluated as a network plugin evaluates it."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from django.test import override_settings

from clusters.backends.kubernetes.namespaces.namespaces import build_network_policy

DENIED = {
    "AWS, Azure, Google, Oracle and most others": "169.254.169.254",
    "AWS tasks": "169.254.170.2",
    "AWS over IPv6": "fd00:ec2::254",
    "AWS pods over IPv6": "fd00:ec2::23",
    "Google over IPv6": "fd20:ce::254",
    "Oracle over IPv6": "fd00:c1::a9fe:a9fe",
    "Oracle, older": "192.0.0.192",
    "OpenStack over IPv6": "fe80::a9fe:a9fe",
    "Scaleway": "169.254.42.42",
    "Scaleway over IPv6": "fd00:42::42",
    "Alibaba": "100.100.100.200",
    "Tencent": "169.254.0.23",
    "Azure's host": "168.63.129.16",
}


def reachable(address: str, port: int = 80) -> bool:
    """Return whether the policy allows a connection to an address outside of the cluster's pods."""
    _, _, body = build_network_policy("i")
    assert set(body["spec"]["policyTypes"]) == {"Ingress", "Egress"}
    return any(_permits(rule, address, port) for rule in body["spec"]["egress"])


def _permits(rule: dict[str, Any], address: str, port: int) -> bool:
    if "ports" in rule and port not in {one["port"] for one in rule["ports"]}:
        return False
    blocks = [peer["ipBlock"] for peer in rule["to"] if "ipBlock" in peer] if "to" in rule else None
    return blocks is None or any(
        ip_address(address) in ip_network(block["cidr"])
        and not any(ip_address(address) in ip_network(text) for text in block["except"])
        for block in blocks
    )


@pytest.mark.parametrize("address", DENIED.values(), ids=DENIED)
def test_credentials_of_nodes_are_out_of_reach(address: str) -> None:
    assert not reachable(address)
    assert not reachable(address, 443)


@pytest.mark.parametrize("address", ["8.8.8.8", "10.0.0.7", "100.100.100.201", "2001:db8::1", "fd00:ec3::1"])
def test_everything_else_is_within_reach(address: str) -> None:
    assert reachable(address)


def test_names_are_looked_up_wherever_they_are_served() -> None:
    assert reachable("169.254.20.10", 53)  # a cache on the node


@override_settings(ALLOTMENT_DENIED_NETWORKS=["10.96.0.1/32", "169.254.0.0/16", "fd00:7::/64"])
def test_an_installation_denies_more() -> None:
    assert [reachable(address) for address in ("10.96.0.1", "10.96.0.2", "fd00:7::1")] == [False, True, False]
    _, _, body = build_network_policy("i")
    for block in (peer["ipBlock"] for peer in body["spec"]["egress"][1]["to"]):
        networks = [ip_network(text) for text in block["except"]]
        # The API server accepts only proper parts of the whole as exceptions.
        assert all(net.version == ip_network(block["cidr"]).version and net.prefixlen for net in networks)
        assert len(set(networks)) == len(networks)


def test_no_connection_comes_in_from_another_namespace() -> None:
    _, _, body = build_network_policy("i")
    assert body["spec"]["podSelector"] == {}
    assert body["spec"]["ingress"] == [{"from": [{"podSelector": {}}]}]
