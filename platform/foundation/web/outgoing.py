"""HTTP requests to addresses that users entered: webhooks, chat robots, exporters.

Users who may enter an address must not reach servers that only this server can reach. So the name is resolved
once, all its addresses must be allowed, and the connection goes to one of exactly these addresses (a second
look-up could give another one). Redirects are not followed, and times and sizes are bounded.

Public addresses are allowed; others only within `ALLOTMENT_OUTGOING_NETWORKS`.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

ANSWER_MAX: Final = 64 * 2**10
TIMEOUT_S: Final = 10.0
_PORTS: Final = {"http": 80, "https": 443}
_CHUNK: Final = 16 * 2**10
_IPV6_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""The only part of IPv6 from which global unicast addresses are assigned (RFC 4291, IANA)."""
_IPV4_IN_IPV6: Final = tuple(
    ipaddress.IPv6Network(text) for text in ("64:ff9b::/96", "::/96", "::ffff:0:0:0/96")
)
"""Networks with IPv4 in the last 32 bits: NAT64 (RFC 6052), IPv4-compatible (RFC 4291), SIIT (RFC 2765)."""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class OutgoingError(OSError):
    """The request was not sent or not answered; the text may be shown to the user who entered the address."""


class OutgoingTimeout(OutgoingError):
    """The server didn't answer in time."""


class AnswerTooLarge(OutgoingError):
    """The answer has more bytes than the caller reads."""


class AddressNotAllowed(OutgoingError):
    """The address is malformed or leads to a network that users' requests may not reach."""


@dataclass(frozen=True, slots=True)
class OutgoingAnswer:
    """The status and body of an answer; header names are in lower case."""

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
    address = _unwrap_address(address)
    networks = [ipaddress.ip_network(text, strict=False) for text in settings.ALLOTMENT_OUTGOING_NETWORKS]
    if any(address in network for network in networks if network.version == address.version):
        return True
    if address.version == 6 and address not in _IPV6_UNICAST:
        return False
    return address.is_global and not address.is_multicast


def _unwrap_address(address: Address) -> Address:
    """Return the IPv4 address to which an IPv6 address is translated or tunnelled, else the address."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    # :: and ::1 are IPv6 addresses and not translated ones.
    if inner is None and int(address) > 1 and any(address in network for network in _IPV4_IN_IPV6):
        inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return inner or address


def resolve_url(url: str) -> list[str]:
    """Return the addresses of the URL's host, all of which are allowed. Raises: OutgoingError."""
    parts = check_url(url)
    return _resolve(parts.hostname or "", parts.port or _PORTS[parts.scheme])


def _resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, all of which are allowed. Raises: OutgoingError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OutgoingError(f"{host} can't be resolved") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for text in addresses:
        if not _is_allowed(ipaddress.ip_address(text.partition("%")[0])):
            raise AddressNotAllowed(
                f"{host} has the address {text}, which is not public and not in ALLOTMENT_OUTGOING_NETWORKS"
            )
    return addresses


class _Deadline:
    """The time at which a request as a whole has failed, so that a server can't delay it byte by byte."""

    def __init__(self, timeout_s: float) -> None:
        self._ends = time.monotonic() + timeout_s

    def get_left(self) -> float:
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        return left


class _TimedReader(io.RawIOBase):
    """Reads the bytes of a socket, and waits for each no longer than the deadline of the request."""

    def __init__(self, raw: socket.socket, deadline: _Deadline) -> None:
        self._raw, self._deadline = raw, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._raw.settimeout(self._deadline.get_left())
        return self._raw.recv_into(buffer)


class _TimedSocket:
    """The part of a socket that `http.client` uses. A socket's own timeout would apply to each read.

    `http.client` closes the connection before it reads an answer that ends with it, so `close` does nothing.
    """

    def __init__(self, raw: socket.socket, deadline: _Deadline) -> None:
        self._raw, self._deadline = raw, deadline

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._raw, self._deadline), _CHUNK)

    def sendall(self, data: Any) -> None:
        self._raw.settimeout(self._deadline.get_left())
        self._raw.sendall(data)

    def close(self) -> None:
        """Do nothing: the code that opened the socket closes it."""


def _connect(parts: SplitResult, deadline: _Deadline, *, via: str, authority: str) -> socket.socket:
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    failure: OSError = OutgoingError(f"{host} has no address")
    addresses = _resolve(host, port)
    if via and via not in addresses:
        raise OutgoingError(f"{host} no longer has the address {via}")
    for address in [via] if via else addresses:
        try:
            raw = socket.create_connection((address, port), timeout=deadline.get_left())
        except OSError as error:
            failure = error
            continue
        try:
            if parts.scheme == "https":
                raw = _context(authority).wrap_socket(raw, server_hostname=host)
        except BaseException:
            raw.close()
            raise
        return raw
    raise failure


@lru_cache(maxsize=64)
def _context(authority: str) -> ssl.SSLContext:
    """Return a context with the public certificate authorities, or the given one alone. Raises: SSLError."""
    return ssl.create_default_context(cadata=authority or None)


def _read_body(answer: http.client.HTTPResponse, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while chunk := answer.read1(_CHUNK):
        size += len(chunk)
        if size > most:
            raise AnswerTooLarge(f"the answer is larger than {most} bytes")
        parts.append(chunk)
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
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
        raise OutgoingTimeout(f"{host} timed out") from error
    except (http.client.HTTPException, ValueError) as error:
        # Its texts repeat what the server sent, such as the banner of a service that does not use HTTP.
        raise OutgoingError(f"{host} gave no valid HTTP answer") from error
    except OSError as error:
        raise OutgoingError(f"{host}: {error.strerror or 'connection failed'}") from error


def send_request(
    method: str,
    url: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    answer_max: int = ANSWER_MAX,
    via: str = "",
    authority: str = "",
) -> OutgoingAnswer:
    """Send one request and return its answer, of any status; a redirect is an answer like any other.

    `timeout_s` bounds the request as a whole (except for the name's look-up), `answer_max` the body in bytes.
    `via` is the one address of the host that has to answer, `authority` a certificate authority as PEM text.
    Raises: AddressNotAllowed; OutgoingError.
    """
    parts = check_url(url)
    deadline = _Deadline(timeout_s)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    with _worded(parts.hostname or ""):
        raw = _connect(parts, deadline, via=via, authority=authority)
        try:
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port or _PORTS[parts.scheme])
            connection.sock = _TimedSocket(raw, deadline)
            sent = {"User-Agent": "Allotment", "Accept-Encoding": "identity", **(headers or {})}
            try:
                connection.request(method, path, body, sent)
            except (http.client.InvalidURL, ValueError) as error:
                raise OutgoingError("the URL or a header contains characters that HTTP forbids") from error
            answer = connection.getresponse()
            content = _read_body(answer, answer_max)
            return OutgoingAnswer(
                answer.status, {name.lower(): value for name, value in answer.getheaders()}, content
            )
        finally:
            raw.close()
