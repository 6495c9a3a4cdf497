"""The address of a caller, by which callers without an account are told apart."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any


def address_of(request: Any) -> str:
    """Return the key of a caller without an account: the network of the address, or the address as it is."""
    return network_of(request) or str(request.META.get("REMOTE_ADDR", ""))


def network_of(request: Any) -> str | None:
    """The address of the caller, of IPv6 the /64 network, which is handed out as a whole.

    None for what is no address, such as a unix socket.
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
