"""The address of a caller, which identifies callers without an account."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any


def address_of(request: Any) -> str:
    """Return the key of a caller without an account: the network of its address, or the address itself."""
    return network_of(request) or str(request.META.get("REMOTE_ADDR", ""))


def network_of(request: Any) -> str | None:
    """Return the caller's address; for IPv6 the /64 network, because networks are assigned as a whole.

    None if it is no IP address, such as a unix socket.
    """
    return network_named(str(request.META.get("REMOTE_ADDR", "")))


def network_named(text: str) -> str | None:
    """Return `network_of` of an address as text."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((int(address) >> 64 << 64, 64)).network_address)
