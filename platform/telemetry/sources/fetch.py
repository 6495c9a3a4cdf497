"""Reads exporters and Prometheus servers over HTTP, within limits of time and size.

Addresses are settings of operators and are checked by `foundation.web.outgoing`: redirects are not followed,
and addresses that are not public are reached only if the installation allows it. A server's answer is never
repeated in an error: a user who may enter an address must not read other services through it.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from foundation.web import outgoing
from foundation.web.outgoing import (
    AddressNotAllowed,
    AnswerTooLarge,
    OutgoingAnswer,
    OutgoingError,
    OutgoingTimeout,
)

EXPOSITION_MAX: Final = 16 * 2**20
"""The most unpacked bytes of one exporter's text; a node with 16 GPUs in 112 MIG instances writes 2 MiB."""
PROMETHEUS_MAX: Final = 128 * 2**20
"""The most unpacked bytes of a Prometheus answer; 1,000 GPUs with 40 series each make some 20 MiB."""
FETCH_TIMEOUT_S: Final = 8.0
ADDRESSES_MAX: Final = 2_000
_ACCEPT_TEXT: Final = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
_GZIP: Final = 16 + zlib.MAX_WBITS


class SourceProblem(StrEnum):
    """The reason why a source gave no samples. Values are stored and part of the REST API."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    ADDRESS_NOT_ALLOWED = "address-not-allowed"
    CREDENTIAL = "credential"
    DENIED = "denied"
    REDIRECTED = "redirected"
    STATUS = "status"
    TOO_LARGE = "too-large"
    NOT_METRICS = "not-metrics"
    NO_KNOWN_METRIC = "no-known-metric"
    QUERY_FAILED = "query-failed"
    NO_ADDRESS = "no-address"
    INTERNAL = "internal"


PROBLEM_TEXTS: Final[Mapping[SourceProblem, str | Promise]] = {
    SourceProblem.UNREACHABLE: _("Connection failed"),
    SourceProblem.TIMEOUT: _("No response in time"),
    SourceProblem.ADDRESS_NOT_ALLOWED: _("Address not allowed by ALLOTMENT_OUTGOING_NETWORKS"),
    SourceProblem.CREDENTIAL: _("The stored credential can't be decrypted; enter it again"),
    SourceProblem.DENIED: _("Credential rejected"),
    SourceProblem.REDIRECTED: _("The server redirects; enter the final address"),
    SourceProblem.STATUS: _("HTTP error"),
    SourceProblem.TOO_LARGE: _("Response too large"),
    SourceProblem.NOT_METRICS: _("The response contains no metrics"),
    SourceProblem.NO_KNOWN_METRIC: _("None of the expected metrics found"),
    SourceProblem.QUERY_FAILED: _("Prometheus rejected the query"),
    SourceProblem.NO_ADDRESS: _("No address to scrape"),
    SourceProblem.INTERNAL: _("Internal error"),
}


def problem_text(problem: str, detail: str) -> str:
    """Return a problem and its details as a sentence in the reader's language."""
    if not problem:
        return ""
    text = str(PROBLEM_TEXTS.get(SourceProblem(problem), problem))
    return gettext("%(text)s (%(detail)s)") % {"text": text, "detail": detail} if detail else text


class SourceFailed(Exception):
    """A source gave no samples. `detail` is technical and short: a host, a status, a limit."""

    def __init__(self, problem: SourceProblem, detail: str = "") -> None:
        super().__init__(f"{problem.value}: {detail}" if detail else problem.value)
        self.problem, self.detail = problem, detail[:200]


@dataclass(frozen=True, slots=True)
class Access:
    """The credentials for a source: a bearer token, or user and password; a certificate authority as PEM."""

    token: str = ""
    user: str = ""
    password: str = ""
    authority: str = ""

    def build_headers(self) -> dict[str, str]:
        """Return the header with the credential, if there is one."""
        if self.token:
            return {"Authorization": f"Bearer {self.token}"}
        if self.user:
            pair = b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")
            return {"Authorization": f"Basic {pair}"}
        return {}


def expand_address(address: str, nodes: Sequence[str]) -> list[str]:
    """Return the addresses of one setting: one per node if it contains `{node}`, else the address itself."""
    if "{node}" not in address:
        return [address]
    return [address.replace("{node}", node) for node in nodes[:ADDRESSES_MAX]]


def resolve_endpoints(url: str) -> list[str]:
    """Return every allowed network address behind `url`: a headless service has one per exporter.

    Raises: SourceFailed.
    """
    try:
        return outgoing.resolve_url(url)[:ADDRESSES_MAX]
    except OutgoingError as error:
        raise _failure(error, url) from error


def fetch_exposition(url: str, access: Access, *, via: str = "", timeout_s: float = FETCH_TIMEOUT_S) -> str:
    """Return the text of an exporter. Raises: SourceFailed."""
    answer = _ask("GET", url, access, timeout_s, EXPOSITION_MAX, via=via, headers={"Accept": _ACCEPT_TEXT})
    kind = answer.headers.get("content-type", "").lower()
    if "html" in kind or "json" in kind:
        raise SourceFailed(SourceProblem.NOT_METRICS, _host(url))
    return _unpack(answer, EXPOSITION_MAX, url).decode("utf-8", "replace")


def query_prometheus(
    base: str,
    path: str,
    parameters: Mapping[str, str],
    access: Access,
    *,
    timeout_s: float = FETCH_TIMEOUT_S,
) -> Any:
    """Return the `data` of an answer of Prometheus' HTTP API, such as of `query` or `query_range`.

    Raises: SourceFailed.
    """
    parts = urlsplit(base)
    url = urlunsplit((parts.scheme, parts.netloc, f"{parts.path.rstrip('/')}/api/v1/{path}", "", ""))
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    body = urlencode(parameters).encode("ascii")
    answer = _ask("POST", url, access, timeout_s, PROMETHEUS_MAX, body=body, headers=headers, failing=True)
    try:
        found = json.loads(_unpack(answer, PROMETHEUS_MAX, url))
    except (ValueError, RecursionError) as error:
        _require_success(answer, url)
        raise SourceFailed(SourceProblem.NOT_METRICS, _host(url)) from error
    if not isinstance(found, dict) or found.get("status") != "success":
        kind = found.get("errorType") if isinstance(found, dict) else None
        if kind in ("timeout", "canceled", "bad_data", "execution", "internal", "unavailable"):
            raise SourceFailed(SourceProblem.QUERY_FAILED, str(kind))
        _require_success(answer, url)
        raise SourceFailed(SourceProblem.NOT_METRICS, _host(url))
    return found.get("data")


def _ask(
    method: str,
    url: str,
    access: Access,
    timeout_s: float,
    most: int,
    *,
    via: str = "",
    body: bytes | None = None,
    headers: Mapping[str, str],
    failing: bool = False,
) -> OutgoingAnswer:
    try:
        answer = outgoing.send_request(
            method,
            url,
            body=body,
            headers={"Accept-Encoding": "gzip", **headers, **access.build_headers()},
            timeout_s=timeout_s,
            answer_max=most,
            via=via,
            authority=access.authority,
        )
    except OutgoingError as error:
        raise _failure(error, url) from error
    if not failing or answer.status in (401, 403) or 300 <= answer.status < 400:
        _require_success(answer, url)
    return answer


def _require_success(answer: OutgoingAnswer, url: str) -> None:
    if answer.status in (401, 403):
        raise SourceFailed(SourceProblem.DENIED, f"{_host(url)}: {answer.status}")
    if 300 <= answer.status < 400:
        raise SourceFailed(SourceProblem.REDIRECTED, f"{_host(url)}: {answer.status}")
    if answer.status != 200:
        raise SourceFailed(SourceProblem.STATUS, f"{_host(url)}: {answer.status}")


def _unpack(answer: OutgoingAnswer, most: int, url: str) -> bytes:
    """Return the unpacked body of `most` bytes at most: a few KB can hold gigabytes. Raises: SourceFailed."""
    coding = answer.headers.get("content-encoding", "identity").strip().lower()
    if coding in ("", "identity"):
        return answer.body
    if coding != "gzip":
        raise SourceFailed(SourceProblem.NOT_METRICS, f"{_host(url)}: Content-Encoding")
    unpacker = zlib.decompressobj(_GZIP)
    try:
        body = unpacker.decompress(answer.body, most + 1)
    except zlib.error as error:
        raise SourceFailed(SourceProblem.NOT_METRICS, f"{_host(url)}: gzip") from error
    if len(body) > most:
        raise SourceFailed(SourceProblem.TOO_LARGE, _host(url))
    if not unpacker.eof:
        raise SourceFailed(SourceProblem.NOT_METRICS, f"{_host(url)}: gzip")
    return body


def _failure(error: OutgoingError, url: str) -> SourceFailed:
    text = str(error)
    if isinstance(error, AddressNotAllowed):
        return SourceFailed(SourceProblem.ADDRESS_NOT_ALLOWED, text)
    if isinstance(error, AnswerTooLarge):
        return SourceFailed(SourceProblem.TOO_LARGE, _host(url))
    if isinstance(error, OutgoingTimeout):
        return SourceFailed(SourceProblem.TIMEOUT, _host(url))
    return SourceFailed(SourceProblem.UNREACHABLE, text)


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""
