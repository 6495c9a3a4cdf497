"""The submitter of `bench kube`: it sends jobs over REST and watches the cluster for bound pods."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import urllib3

from benchmarks.kube.cluster import Bindings
from benchmarks.kube.waiting import wait_for_count
from benchmarks.support.running import RunningPlatform

_THREADS: Final = 4
_MOST: Final = 500  # the maximum number of jobs of one request
_CANCELLED_AT_ONCE: Final = 200
_LIVE: Final = "&".join(
    f"state={state}" for state in ("queued", "admitted", "starting", "running", "evicting", "stopping")
)


class BenchUser:
    """One user's key, and the workspaces `filler` and `owner`."""

    def __init__(self, running: RunningPlatform, bindings: Bindings) -> None:
        self._running, self._bindings = running, bindings
        self._pool = urllib3.PoolManager(maxsize=_THREADS, retries=False)

    def submit_steadily(self, jobs: int, per_s: int) -> list[float]:
        """Submit jobs at a steady rate; return the seconds from the due time of each to its binding."""
        begun = time.time() + 0.1

        def submit_jobs(number: int) -> tuple[str, float]:
            due = begun + number / per_s
            time.sleep(max(0.0, due - time.time()))
            return self._post("filler", "jobs", _job(f"steady-{begun:.0f}-{number}"), 202)["id"], due

        with ThreadPoolExecutor(_THREADS) as threads:
            sent = dict(threads.map(submit_jobs, range(jobs)))
        self._bound(list(sent), jobs)
        self._cancel(list(sent))
        return [self._bindings.binding_times(job)[0] - due for job, due in sent.items()]

    def fill_cards(self, cards: int) -> float:
        """Submit one job for each GPU, all at once; return the seconds until the last is bound."""
        begun, jobs = time.time(), list[str]()
        for first in range(0, cards, _MOST):
            bodies = [_job(f"fill-{number}") for number in range(first, min(first + _MOST, cards))]
            reply = self._post("filler", "job-submissions", {"jobs": bodies}, 202)
            jobs += [item["id"] for item in reply["items"]]
        self._bound(jobs, cards)
        return max(self._bindings.binding_times(job)[0] for job in jobs) - begun

    def reclaim_cards(self, cards: int, each: int) -> float:
        """Submit a job of whole nodes that reclaims its team's quota; return seconds until it is bound."""
        begun = time.time()
        job = self._post("owner", "jobs", _job("owner", cards // each, each), 202)["id"]
        self._bound([job], cards // each)
        return self._bindings.binding_times(job)[-1] - begun

    def _cancel(self, jobs: Sequence[str]) -> None:
        for first in range(0, len(jobs), _CANCELLED_AT_ONCE):
            asked = {"action": "cancel", "jobs": jobs[first : first + _CANCELLED_AT_ONCE]}
            self._post("filler", "job-actions", asked, 200)
        wait_for_count(self._all_over, 1, "workspaces without live jobs")

    def _all_over(self) -> int:
        return int(not self._ask("GET", f"workspaces/filler/jobs?limit=1&{_LIVE}", None, 200)["items"])

    def _bound(self, jobs: Sequence[str], pods: int) -> None:
        wait_for_count(lambda: self._bindings.count_bound(jobs), pods, "pods bound")

    def _post(self, workspace: str, what: str, body: Mapping[str, Any], status: int) -> dict[str, Any]:
        return self._ask("POST", f"workspaces/{workspace}/{what}", body, status)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, status: int) -> dict[str, Any]:
        address = f"{self._running.url}/api/v1/{path}"
        headers = {"Authorization": f"Bearer {self._running.token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        answer = self._pool.request(method, address, body=content, headers=headers, timeout=120)
        if answer.status != status:
            raise RuntimeError(f"{method} {path} was answered {answer.status}: {answer.data[:300]!r}")
        parsed: dict[str, Any] = json.loads(answer.data)
        return parsed


def _job(name: str, replicas: int = 1, cards: int = 1) -> dict[str, Any]:
    resources = {"cpu": "100m", "memory": "64Mi", "gpu": {"cards": cards}}
    role = {"name": "main", "replicas": replicas, "image": "bench:1", "resources": resources}
    return {"name": name, "roles": [role]}
