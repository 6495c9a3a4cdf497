"""Sends requests of one kind from several clients at once, and reads their cost from the server's headers."""

from __future__ import annotations

import http.client
import json
import random
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from benchmarks.api.requests import KINDS, ApiRequest, Team

_WARM: Final = 10
_TIMING: Final = re.compile(r'app;dur=([\d.]+), db;dur=([\d.]+);desc="(\d+)", cpu;dur=([\d.]+)')


@dataclass(frozen=True, slots=True)
class Answered:
    """One response: milliseconds in the server and of its statements, the number of statements, and processor
    time of the web process.
    """

    ms: float
    database_ms: float
    statements: int
    cpu_ms: float


def warm_up(ports: Sequence[int], kind: str, teams: Sequence[Team]) -> None:
    """Send a few requests to each process, so that its caches are filled."""
    for port in ports:
        _client(port, kind, teams, _WARM, f"warm {port}")


def ask_all(
    ports: Sequence[int], kind: str, teams: Sequence[Team], *, requests: int, clients: int
) -> list[Answered]:
    """Measure the responses to `requests`, sent by `clients` at once, each after the response to its last
    request.
    """
    share = -(-requests // clients)

    def run_client(number: int) -> list[Answered]:
        return _client(ports[number % len(ports)], kind, teams, share, f"{kind} {number}")

    with ThreadPoolExecutor(clients) as pool:
        return [answer for answers in pool.map(run_client, range(clients)) for answer in answers]


def _client(port: int, kind: str, teams: Sequence[Team], count: int, seed: str) -> list[Answered]:
    draw = random.Random(seed)
    found: list[Answered] = []
    shares = [team["share"] for team in teams]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while len(found) < count:
        team = draw.choices(teams, shares)[0]
        ask = KINDS[kind](team, draw)
        answer, body = _ask(connection, team, ask)
        found.append(answer)
        if ask.follow and body["next"] and draw.random() < 0.5:
            mark = "&" if "?" in ask.path else "?"
            found.append(_ask(connection, team, ApiRequest(f"{ask.path}{mark}cursor={body['next']}"))[0])
    connection.close()
    return found


def _ask(connection: http.client.HTTPConnection, team: Team, ask: ApiRequest) -> tuple[Answered, Any]:
    headers = {"Authorization": f"Bearer {team['token']}", "Content-Type": "application/json"}
    path = quote(ask.path, safe="/?&=%<>:-,")
    connection.request("POST" if ask.body else "GET", path, ask.body, headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status not in (200, 202):
        raise RuntimeError(f"{urlsplit(path).path} was answered {answer.status}: {text[:300]!r}")
    return read_timing(answer.headers["Server-Timing"]), json.loads(text)


def read_timing(timing: str) -> Answered:
    found = _TIMING.fullmatch(timing)
    if found is None:
        raise RuntimeError(f"the server told no times: {timing}")
    return Answered(float(found[1]), float(found[2]), int(found[3]), float(found[4]))


def percentile_of(values: Sequence[float], part: float) -> float:
    """Return the value below which this part of the values lies."""
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]
