"""Requests lists as a user in a browser and as a client with a key."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from benchmarks.api.asking import Answered, read_timing
from benchmarks.api.installation import BenchInstallation
from benchmarks.lists.places import ListPlace
from benchmarks.support.processor import seconds_of_family

REFUSED: Final = (403, 404)
_WARM: Final = 1
_CSRF: Final = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """The responses to one query, and the database's milliseconds of processor time for each."""

    query: str
    answers: Sequence[Answered]
    database_ms: float


class ListReader:
    """A user with a session and a key, on one web process."""

    def __init__(self, port: int, account: Mapping[str, str]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._token, self._cookies = account["token"], dict[str, str]()
        _, text, _ = self._send("GET", "/login")
        found = _CSRF.search(text)
        form = {"username": account["username"], "password": account["password"]}
        form["csrfmiddlewaretoken"] = found[1] if found else ""
        status, text, _ = self._send("POST", "/login", urlencode(form))
        if status != http.client.FOUND:
            raise RuntimeError(f"{account['username']} can't sign in: {status} {text[:300]}")

    def request_list(self, path: str) -> tuple[int, str, Answered]:
        """Request a list with the session, or below /api with the key."""
        return self._send("GET", path)

    def _send(self, method: str, path: str, body: str | None = None) -> tuple[int, str, Answered]:
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
        if path.startswith("/api/"):
            headers = {"Authorization": f"Bearer {self._token}"}
        if body is not None:
            headers |= {"Content-Type": "application/x-www-form-urlencoded"}
        self._connection.request(method, quote(path, safe="/?&=%<>:-,@!"), body, headers)
        answer = self._connection.getresponse()
        text = answer.read().decode()
        for cookie in answer.headers.get_all("Set-Cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self._cookies[name] = value
        return answer.status, text, read_timing(answer.headers["Server-Timing"])


def measure_place(
    made: BenchInstallation, reader: ListReader, place: ListPlace, times: int
) -> list[QueryFigures]:
    """Measure a list with each of its queries; return nothing for a list that the reader may not see."""
    path = place.path.format_map(made.world["names"])
    status, text, _ = reader.request_list(path)
    if status in REFUSED:
        return []
    queries = ["", *place.queries, *(_last_page(text) if place.is_api else ())]
    found = (_measure(made, reader, path, query, times) for query in queries)
    return [figures for figures in found if figures is not None]


def _last_page(text: str) -> list[str]:
    body: Any = json.loads(text)
    total = body.get("total")
    return [f"limit=50&offset={max(total - 50, 0)}"] if isinstance(total, int) else []


def _measure(
    made: BenchInstallation, reader: ListReader, path: str, query: str, times: int
) -> QueryFigures | None:
    address = f"{path}{'&' if '?' in path else '?'}{query}" if query else path
    for _ in range(_WARM):
        status, text, _ = reader.request_list(address)
        if status == http.client.FORBIDDEN:
            return None
        if status != http.client.OK:
            raise RuntimeError(f"{address} was answered {status}: {text[:300]}")
    begun = seconds_of_family(made.database)
    answers = [reader.request_list(address)[2] for _ in range(times)]
    return QueryFigures(query, answers, 1000 * (seconds_of_family(made.database) - begun) / times)
