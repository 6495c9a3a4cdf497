"""Sends requests one after the other, with retries where that is safe, and turns refusals into `Problem`.

A read, and a write that names the version it applies to, may be sent twice. A POST is sent with an
`Idempotency-Key`, so that the server executes it once however often it arrives. Retries wait for the server's
`Retry-After`, else for a doubling pause with a random part, so that many clients do not retry in step.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx

from allotment_client.config import Configuration
from allotment_client.errors import Problem, ServerUnreachable

LONGEST_PAUSE_S: Final = 60.0
_AGAIN: Final = frozenset({429, 502, 503, 504})
# An earlier try with the same key is still being executed; a later try gets its response.
_RUNNING: Final = "IDEMPOTENCY_KEY_IN_USE"
Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A response of the server; `body` is decoded JSON, text, or None."""

    status: int
    headers: Mapping[str, str]
    body: Any


class Transport:
    """Requests below `/api/v1/` of one server. Not thread-safe."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        sleep: Sleep = time.sleep,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._tries = max(1, configuration.tries)
        self._sleep = sleep
        headers = {"Authorization": f"Bearer {configuration.key}", "Accept": "application/json"}
        if configuration.language:
            headers["Accept-Language"] = configuration.language
        # A redirect could send the key to another host; a server that redirects is not the API.
        self._http = httpx.Client(
            base_url=f"{configuration.url}/api/v1/",
            headers=headers,
            timeout=configuration.timeout_s,
            follow_redirects=False,
            transport=transport,
        )

    def close(self) -> None:
        self._http.close()

    def send_request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """Send a request, with retries; a `body` that is text is sent as YAML, any other as JSON.

        Raises: Problem if the server refuses; ServerUnreachable after the last try.
        """
        sent = dict(headers or {})
        if method == "POST":
            sent.setdefault("Idempotency-Key", str(uuid.uuid4()))
        content: dict[str, Any] = {} if body is None else {"json": body}
        if isinstance(body, str):
            sent["Content-Type"] = "application/yaml"
            content = {"content": body.encode()}
        for attempt in range(self._tries):
            last = attempt == self._tries - 1
            try:
                response = self._http.request(method, path, params=query, headers=sent, **content)
            except httpx.TransportError as error:
                if last:
                    raise _unreachable(self._http.base_url, error) from error
                self._sleep(_pause(attempt))
                continue
            if not last and _worth_another(response):
                self._sleep(_retry_after(response) or _pause(attempt))
                continue
            return _answer(response)
        raise AssertionError("the last try returns or raises")

    @contextmanager
    def open_stream(
        self, path: str, *, query: Mapping[str, Any], headers: Mapping[str, str], silence_s: float
    ) -> Iterator[Iterator[str]]:
        """Yield the lines of a stream, as long as a line comes every `silence_s` seconds.

        Raises: Problem; ServerUnreachable if it cannot be opened or breaks.
        """
        timeout = httpx.Timeout(self._http.timeout.connect, read=silence_s)
        accept = {"Accept": "text/event-stream", **headers}
        try:
            with self._http.stream("GET", path, params=query, headers=accept, timeout=timeout) as response:
                if response.status_code != 200:
                    response.read()
                    _answer(response)
                yield response.iter_lines()
        except httpx.TransportError as error:
            raise _unreachable(self._http.base_url, error) from error


def _unreachable(url: httpx.URL, error: Exception) -> ServerUnreachable:
    return ServerUnreachable(f"{url.scheme}://{url.netloc.decode()} does not answer: {error}")


def _worth_another(response: httpx.Response) -> bool:
    if response.status_code == 409:
        return _decoded(response).get("code") == _RUNNING
    return response.status_code in _AGAIN


def _decoded(response: httpx.Response) -> dict[str, Any]:
    try:
        found = response.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _retry_after(response: httpx.Response) -> float:
    """Return the seconds of Retry-After, which may be a date, at most `LONGEST_PAUSE_S`; 0 without a valid
    value.
    """
    value = response.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdecimal():
        wait = float(value)
    else:
        try:
            at = parsedate_to_datetime(value)
        except (TypeError, ValueError):
            return 0.0
        wait = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
    return min(max(wait, 0.0), LONGEST_PAUSE_S)


def _pause(attempt: int) -> float:
    return float(min(0.5 * 2**attempt, 10.0)) * random.uniform(0.5, 1.0)


def _answer(response: httpx.Response) -> HttpAnswer:
    if response.status_code >= 300:
        said = _decoded(response) or {"detail": f"The server answered {response.status_code}."}
        raise Problem(response.status_code, said)
    is_json = "json" in response.headers.get("Content-Type", "")
    body = (response.json() if is_json else response.text) if response.content else None
    return HttpAnswer(response.status_code, response.headers, body)
