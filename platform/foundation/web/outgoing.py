"""HTTP requests to addresses that users entered: webhooks, chat robots, exporters.

Who may enter an address must not reach what only this server can reach. So the name is resolved once, every
address that it has must be allowed, and the connection goes to one of exactly these addresses (no second
look-up that could give another one). Redirects are not followed, and times and sizes are bounded.

Public addresses are allowed; others only within `ALLOTMENT_OUTGOING_NETWORKS`.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

ANSWER_MAX: Final = 64 * 2**10
TIMEOUT_S: Final = 10.0
_PORTS: Final = {"http": 80, "https": 443}
_CHUNK: Final = 16 * 2**10
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class OutgoingError(OSError):
    """The request could not be made or answered; the text can be shown to who entered the address."""


class AddressNotAllowed(OutgoingError):
    """The address is malformed or leads where requests of users must not go."""


@dataclass(frozen=True, slots=True)
class OutgoingAnswer:
    """Status and body of an answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def check_url(url: str) -> SplitResult:
    """Check the form of an address without looking it up. Raises: AddressNotAllowed."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise AddressNotAllowed("not a valid URL") from error
    if parts.scheme not in _PORTS or not parts.hostname:
        raise AddressNotAllowed("the URL must begin with https:// or http:// and name a host")
    if parts.username is not None or parts.password is not None:
        raise AddressNotAllowed("the URL must not contain a user name or password")
    if port == 0 or any(ord(letter) <= 32 or ord(letter) == 127 for letter in url):
        raise AddressNotAllowed("not a valid URL")
    return parts


def _is_allowed(address: Address) -> bool:
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        address = mapped
    networks = [ipaddress.ip_network(text, strict=False) for text in settings.ALLOTMENT_OUTGOING_NETWORKS]
    if any(address in network for network in networks if network.version == address.version):
        return True
    return address.is_global and not address.is_multicast


def _resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, all of which are allowed. Raises: OutgoingError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OutgoingError(f"{host} cannot be resolved") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for text in addresses:
        if not _is_allowed(ipaddress.ip_address(text.partition("%")[0])):
            raise AddressNotAllowed(
                f"{host} has the address {text}, which is not public and not in ALLOTMENT_OUTGOING_NETWORKS"
            )
    return addresses


class _Deadline:
    """The time at which a request as a whole has failed: a server that sends a byte a second must not win."""

    def __init__(self, timeout_s: float) -> None:
        self._ends = time.monotonic() + timeout_s

    def get_left(self) -> float:
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left


def _connect(parts: SplitResult, deadline: _Deadline) -> http.client.HTTPConnection:
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    failure: OSError = OutgoingError(f"{host} has no address")
    for address in _resolve(host, port):
        try:
            raw = socket.create_connection((address, port), timeout=deadline.get_left())
        except OSError as error:
            failure = error
            continue
        connection = http.client.HTTPConnection(host, port, timeout=deadline.get_left())
        connection.sock = raw
        if parts.scheme == "https":
            try:
                connection.sock = ssl.create_default_context().wrap_socket(raw, server_hostname=host)
            except OSError:
                raw.close()
                raise
        return connection
    raise failure


def _read_body(
    answer: http.client.HTTPResponse, connection: http.client.HTTPConnection, most: int, deadline: _Deadline
) -> bytes:
    parts: list[bytes] = []
    size = 0
    while chunk := answer.read1(_CHUNK):
        size += len(chunk)
        if size > most:
            raise OutgoingError(f"the answer is larger than {most} bytes")
        parts.append(chunk)
        if connection.sock is not None:
            connection.sock.settimeout(deadline.get_left())
    return b"".join(parts)


@contextmanager
def _worded(host: str) -> Iterator[None]:
    try:
        yield
    except OutgoingError:
        raise
    except ssl.SSLCertVerificationError as error:
        raise OutgoingError(f"the certificate of {host} is not valid: {error.verify_message}") from error
    except TimeoutError as error:
        raise OutgoingError(f"{host} did not answer in time") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise OutgoingError(f"{host}: {error}") from error


def send_request(
    method: str,
    url: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    answer_max: int = ANSWER_MAX,
) -> OutgoingAnswer:
    """Make one request and return its answer, whatever its status; a redirect is an answer like any other.

    `timeout_s` bounds the request as a whole (looking up the name aside), `answer_max` the body in bytes.
    Raises: AddressNotAllowed; OutgoingError.
    """
    parts = check_url(url)
    deadline = _Deadline(timeout_s)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    with _worded(parts.hostname or ""):
        connection = _connect(parts, deadline)
        try:
            sent = {"User-Agent": "Allotment", "Accept-Encoding": "identity", **(headers or {})}
            connection.request(method, path, body, sent)
            if connection.sock is not None:
                connection.sock.settimeout(deadline.get_left())
            answer = connection.getresponse()
            content = _read_body(answer, connection, answer_max, deadline)
            return OutgoingAnswer(
                answer.status, {name.lower(): value for name, value in answer.getheaders()}, content
            )
        finally:
            connection.close()
