"""`allotment bench pipeline`: the time from submitting jobs over the API until all are admitted.

A real platform (web, workers, relay, broker, SQLite) with a simulated cluster; jobs of one task and one GPU
are submitted by a few clients at once, and the admission times are read from the database.
"""

from __future__ import annotations

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from benchmarks.support.report import FigureRow, Report, read_limits
from benchmarks.support.running import RunningPlatform, large_team, run_platform

_CLIENTS = 4
_DEADLINE_S = 180
_PAGE = 500


def run() -> Report:
    """Measure once."""
    bounds = read_limits("pipeline")
    jobs, nodes, cards = bounds["jobs"], bounds["nodes"], bounds["cards_per_node"]
    with run_platform(world=large_team(nodes=nodes, cards=cards)) as running:
        begun = time.time()
        with ThreadPoolExecutor(_CLIENTS) as pool:
            parts = list(pool.map(lambda c: _submit(running, range(c, jobs, _CLIENTS)), range(_CLIENTS)))
        submitted_s = time.time() - begun
        last_admission_s = _wait_admitted(running, jobs) - begun
    latencies = [latency for part in parts for latency in part]
    return Report(
        name="pipeline",
        size={"jobs": jobs, "nodes": nodes, "cards": nodes * cards, "clients": _CLIENTS},
        rows=[
            FigureRow("first request to last admission, s", last_admission_s, bounds["all_admitted_s"]),
            FigureRow("first request to last answer, s", submitted_s),
        ],
        seconds=last_admission_s,
        rate=jobs / last_admission_s,
        latencies_s=latencies,
    )


def _submit(running: RunningPlatform, numbers: range) -> list[float]:
    """Submit jobs over one connection; return the seconds of each response."""
    connection = http.client.HTTPConnection(urlsplit(running.url).netloc, timeout=60)
    headers = {"Authorization": f"Bearer {running.token}", "Content-Type": "application/json"}
    latencies = []
    for number in numbers:
        begun = time.perf_counter()
        connection.request("POST", "/api/v1/workspaces/bench/jobs", _body(number), headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 202:
            raise RuntimeError(f"job {number} was answered {answer.status}: {text[:300]!r}")
        latencies.append(time.perf_counter() - begun)
    connection.close()
    return latencies


def _body(number: int) -> str:
    resources = {"cpu": 4, "memory": "16Gi", "gpu": {"cards": 1}}
    role = {"name": "main", "replicas": 1, "image": "bench:1", "resources": resources}
    return json.dumps(
        {"name": f"bench-{number}", "kind": "batch", "roles": [role], "simulate": {"run_s": 3600}}
    )


def _wait_admitted(running: RunningPlatform, jobs: int) -> float:
    """Wait until every job is admitted; return the time of the last admission (epoch seconds)."""
    deadline = time.monotonic() + _DEADLINE_S
    while _get(running, "/api/v1/workspaces/bench/jobs?state=queued&limit=1")["items"]:
        if time.monotonic() > deadline:
            raise RuntimeError(f"not all jobs were admitted within {_DEADLINE_S} s")
        time.sleep(0.5)
    times: list[float] = []
    address: str | None = f"/api/v1/workspaces/bench/jobs?limit={_PAGE}"
    while address:
        page = _get(running, address)
        times += [datetime.fromisoformat(item["admitted_at"]).timestamp() for item in page["items"]]
        following = page["next"]
        address = f"/api/v1/workspaces/bench/jobs?limit={_PAGE}&cursor={following}" if following else None
    if len(times) != jobs:
        raise RuntimeError(f"{len(times)} of {jobs} jobs are known")
    return max(times)


def _get(running: RunningPlatform, address: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection(urlsplit(running.url).netloc, timeout=60)
    connection.request("GET", address, headers={"Authorization": f"Bearer {running.token}"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{address} was answered {answer.status}: {body[:300]!r}")
    parsed: dict[str, Any] = json.loads(body)
    return parsed
