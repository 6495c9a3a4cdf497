"""The cluster of `bench kube`, used as its administrator: nodes, plain calls, and a watch of its pods."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import HTTPError

from benchmarks.kube.waiting import wait_for_count
from benchmarks.support.control_plane import ControlPlane

Json = dict[str, Any]
_WITHOUT_PLATFORM: Final = "bare"
_THREADS: Final = 16
_JOB: Final = "allotment.io/job"


class Administrator:
    """Plain calls with JSON bodies. Can be shared among threads."""

    def __init__(self, plane: ControlPlane) -> None:
        self._pool = urllib3.PoolManager(ca_certs=str(plane.certificate), maxsize=_THREADS)
        self._url, self._headers = plane.url, {"Authorization": f"Bearer {plane.admin_token}"}

    def call_api(self, method: str, path: str, body: Json | None = None) -> Json:
        """Call the API. Raises: RuntimeError with the response when the API refuses."""
        status, data = self._answer(method, path, body)
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {data[:300]!r}")
        parsed: Json = json.loads(data)
        return parsed

    def _answer(self, method: str, path: str, body: Json | None = None) -> tuple[int, bytes]:
        headers = {**self._headers, "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        answer = self._pool.request(method, self._url + path, body=content, headers=headers, timeout=30)
        return answer.status, answer.data

    def create_nodes(self, count: int, cards: int) -> None:
        """Create nodes with `cards` GPUs each, and wait until kwok has made them ready."""

        def make_pods(number: int) -> None:
            size = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(cards)}
            labels = {"nvidia.com/gpu.product": "A100-40G", "nvidia.com/gpu.memory": "40960"}
            status = {"capacity": size, "allocatable": size}
            body = {"metadata": {"name": _node(number), "labels": labels}, "status": status}
            self.call_api("POST", "/api/v1/nodes", body)

        _at_once(make_pods, range(count))
        wait_for_count(self._ready_nodes, count, "nodes ready")

    def _ready_nodes(self) -> int:
        found = self.call_api("GET", "/api/v1/nodes")["items"]
        return sum(_ready(node) and not node["spec"].get("taints") for node in found)

    def measure_plain_calls(self, pods: int, nodes: int) -> tuple[float, float]:
        """Return the pods per second that are only created, and that are created and bound, by plain calls
        alone.

        The pods are like those of the platform, because the size of a pod costs the API server time with
        every call.
        """
        command = [sys.executable, "-m", "benchmarks.kube.pod", _WITHOUT_PLATFORM]
        pod = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        account = pod["spec"]["serviceAccountName"]
        self.call_api("POST", "/api/v1/namespaces", {"metadata": {"name": _WITHOUT_PLATFORM}})
        self.call_api(
            "POST", f"/api/v1/namespaces/{_WITHOUT_PLATFORM}/serviceaccounts", {"metadata": {"name": account}}
        )
        created = self._rate(lambda number: self._create(pod, number), pods)
        return created, self._rate(lambda number: self._create_and_bind(pod, number, nodes), pods)

    def measure_minimal_pods(self, pods: int, nodes: int) -> float:
        """Return the pods per second that are created and bound, for pods of one container with one GPU and
        no more.

        Call it after `measure_plain_calls`, whose namespace it uses.
        """
        container = {"name": "main", "image": "bench:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        pod = {"metadata": {}, "spec": {"containers": [container]}}
        return self._rate(lambda number: self._create_and_bind(pod, number, nodes), pods)

    def _rate(self, act: Callable[[int], None], pods: int) -> float:
        begun = time.monotonic()
        _at_once(act, range(pods))
        rate = pods / (time.monotonic() - begun)
        path = f"/api/v1/namespaces/{_WITHOUT_PLATFORM}/pods"
        self._answer("DELETE", path, {"gracePeriodSeconds": 0})
        wait_for_count(lambda: pods - len(self.call_api("GET", path)["items"]), pods, "bare pods gone")
        return rate

    def _create(self, pod: Json, number: int) -> str:
        name = f"pod-{number}"
        body = {**pod, "metadata": {**pod["metadata"], "name": name}}
        self.call_api("POST", f"/api/v1/namespaces/{_WITHOUT_PLATFORM}/pods", body)
        return name

    def _create_and_bind(self, pod: Json, number: int, nodes: int) -> None:
        name = self._create(pod, number)
        target = {"apiVersion": "v1", "kind": "Node", "name": _node(number % nodes)}
        path = f"/api/v1/namespaces/{_WITHOUT_PLATFORM}/pods/{name}/binding"
        self.call_api("POST", path, {"metadata": {"name": name}, "target": target})


class Bindings:
    """The times when the pods of each job were first seen bound; a thread watches them as long as the process
    lives.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._guard = threading.Lock()
        self._bound: dict[str, dict[str, float]] = {}
        threading.Thread(target=self._follow, daemon=True).start()

    def binding_times(self, job: str) -> list[float]:
        """Return the times (epoch seconds) at which pods of a job were bound, for those that are bound, in
        order.
        """
        with self._guard:
            return sorted(self._bound.get(job, {}).values())

    def count_bound(self, jobs: Iterable[str]) -> int:
        """Return how many pods of those jobs are bound."""
        with self._guard:
            return sum(len(self._bound.get(job, ())) for job in jobs)

    def _follow(self) -> None:
        pool = urllib3.PoolManager(ca_certs=str(self._plane.certificate))
        headers = {"Authorization": f"Bearer {self._plane.admin_token}"}
        # Only the namespace in question is watched: each watch costs the cluster processor time.
        selected = urlencode({"labelSelector": _JOB, "fieldSelector": "spec.nodeName!="})
        address = f"{self._plane.url}/api/v1/pods?watch=1&timeoutSeconds=300&{selected}"
        while self._plane.api_server.is_running():
            try:
                answer = pool.request("GET", address, headers=headers, preload_content=False, timeout=310)
                for line in answer:  # a watch starts with existing pods, so none is missed
                    self._note(json.loads(line)["object"])
                answer.close()
            except HTTPError:
                time.sleep(0.1)  # the API server is stopping; a broken watch is restarted

    def _note(self, pod: Json) -> None:
        with self._guard:
            seen = self._bound.setdefault(pod["metadata"]["labels"][_JOB], {})
            seen.setdefault(pod["metadata"]["uid"], time.time())


def _node(number: int) -> str:
    return f"node-{number:04d}"


def _ready(node: Json) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _at_once(act: Callable[[int], None], numbers: Iterable[int]) -> None:
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(act, numbers))
