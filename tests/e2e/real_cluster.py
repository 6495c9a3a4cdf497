"""A whole platform in front of a real API server with up to 50 nodes of 8 cards, which kwok simulates."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from benchmarks.support.control_plane import ControlPlane, find_programs, running_nodes
from benchmarks.support.running import RunningPlatform, run_platform
from clusters.gpu import hami
from tests.fixtures.kubelet import Cluster, Json, node_allocates
from tests.fixtures.programs import run_to_end
from tests.fixtures.wait import wait_until

CARDS: Final = 8
MODEL: Final = "A100-40G"
MEMORY_MIB: Final = 46_080
PARTS: Final = 10  # containers that may share one card, as HAMi counts them
INSTANCES: Final = 7 * CARDS
WHOLE: Final = 46
CUT: Final = ("cut-1", "cut-2")
MIG: Final = ("mig-1", "mig-2")
_SIZE: Final = {"cpu": "96", "memory": "1Ti", "pods": "110"}
_SOON_S: Final = 40.0
_ENDED: Final = {"exitCode": 0, "reason": "Completed"}


@dataclass(frozen=True)
class Installation:
    """What a user sees over REST, and what the cluster itself reports."""

    running: RunningPlatform
    plane: ControlPlane
    api: Cluster

    # Over REST

    def submit(
        self,
        team: str,
        *,
        replicas: int = 1,
        gpu: Json | None = None,
        priority: str = "normal",
        name: str = "job",
        placement: Json | None = None,
    ) -> str:
        """Submit a job of one role, which asks for whole machines by default; returns its id."""
        resources = {"cpu": 1, "memory": "1Gi", "gpu": gpu or {"cards": CARDS, "model": MODEL}}
        role = {"name": "main", "replicas": replicas, "image": "train:1", "resources": resources}
        body = {"name": name, "priority_class": priority, "roles": [role], "placement": placement or {}}
        job: str = self._ask(f"workspaces/{team}/jobs", body)["id"]
        return job

    def job(self, team: str, job: str) -> Json:
        return self._ask(f"workspaces/{team}/jobs/{job}")

    def placed(self, team: str, job: str) -> dict[str, str]:
        """Return the node of each present pod of the job, as the engine decided."""
        return {task["allocation"]["pod"]: task["allocation"]["node"] for task in self.tasks(team, job)}

    def tasks(self, team: str, job: str) -> list[Json]:
        tasks: list[Json] = self._ask(f"workspaces/{team}/jobs/{job}/tasks")["items"]
        return tasks

    def _ask(self, path: str, body: Json | None = None) -> Json:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.running.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.running.url}/api/v1/{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                parsed: Json = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read()[:500]!r}") from error
        return parsed

    # The cluster's own state

    def pods(self, team: str, job: str = "") -> dict[str, Json]:
        """Return the pods of a team, or of one of its jobs, by name."""
        selector = f"?labelSelector=allotment.io/job={job}" if job else ""
        found = self.api.items(f"/api/v1/namespaces/{team}/pods{selector}")
        return {pod["metadata"]["name"]: pod for pod in found}

    def version(self) -> str:
        """Return the current resource version of the cluster."""
        version: str = self.api.call("GET", "/api/v1/pods?limit=1")["metadata"]["resourceVersion"]
        return version

    def comings_and_goings(self, team: str, since: str) -> list[tuple[str, str]]:
        """Return each pod that was created or deleted since a version, in order, with its job."""
        query = f"watch=1&resourceVersion={since}&timeoutSeconds=1"
        status, text = self.api.answer("GET", f"/api/v1/namespaces/{team}/pods?{query}")
        assert status == 200, text
        events = [json.loads(line) for line in text.splitlines()]
        return [
            (event["type"], event["object"]["metadata"]["labels"]["allotment.io/job"])
            for event in events
            if event["type"] in ("ADDED", "DELETED")
        ]

    def runs(self, team: str, job: str, pods: int = 1) -> dict[str, Json]:
        """Wait until the job's pods run on the nodes that were decided; returns the pods."""

        def look() -> dict[str, Json] | None:
            found = self.pods(team, job)
            up = [pod for pod in found.values() if pod["status"]["phase"] == "Running"]
            leaving = any("deletionTimestamp" in pod["metadata"] for pod in found.values())
            return found if len(found) == len(up) == pods and not leaving else None

        found = wait_until(look, f"{pods} pods of {team} run", within_s=_SOON_S)
        assert found is not None
        wait_until(lambda: self.job(team, job)["state"] == "running", f"{team}'s job runs", within_s=_SOON_S)
        assert {name: pod["spec"]["nodeName"] for name, pod in found.items()} == self.placed(team, job)
        return found

    def finish(self, pods: dict[str, Json]) -> None:
        """Report the successful end of these pods' containers, as a kubelet does."""
        for name, pod in pods.items():
            (container,) = pod["status"]["containerStatuses"]
            ended = {**container, "ready": False, "state": {"terminated": _ENDED}}
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{name}/status"
            self.api.call("PATCH", path, {"status": {"phase": "Succeeded", "containerStatuses": [ended]}})

    def name_container(self, pod: Json) -> str:
        """Report the id of a pod's container, as a kubelet does and kwok does not; returns the id."""
        (container,) = pod["status"]["containerStatuses"]
        name = sha256(pod["metadata"]["uid"].encode()).hexdigest()
        named = {**container, "containerID": f"containerd://{name}"}
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/status"
        self.api.call("PATCH", path, {"status": {"containerStatuses": [named]}})
        return name

    def serve_parts(self, node: str) -> None:
        """Serve the pod that holds the node's lock, as HAMi's device plugin does."""
        machine = self.api.call("GET", f"/api/v1/nodes/{node}")
        for pod in self.api.items(f"/api/v1/pods?fieldSelector=spec.nodeName={node}"):
            if (pod["metadata"].get("annotations") or {}).get(hami.PHASE) == hami.PHASE_ALLOCATING:
                assert node_allocates(self.api, pod, machine) is None

    def kubectl(self, *words: str) -> None:
        """Run the cluster's own command line as its administrator."""
        programs = find_programs()
        assert programs is not None
        access = [
            f"--kubeconfig={self.plane.write_kubeconfig()}",
            f"--cache-dir={self.plane.folder / 'kubectl'}",
        ]
        run_to_end([str(programs / "kubectl"), *access, *words], check=True, within_s=_SOON_S)


@contextmanager
def installation(
    plane: ControlPlane, database: str, teams: Sequence[str], *, whole: int = WHOLE, parts: bool = True
) -> Iterator[Installation]:
    """Nodes, their simulation, and a platform whose account has only the documented rights.

    `whole` is the number of nodes whose GPUs are allocated whole; with `parts` there are also sliced ones.
    """
    api = Cluster(plane)
    with ExitStack() as stack:
        stack.callback(api.clear)
        nodes = _nodes(api, whole, parts)
        stack.enter_context(running_nodes(plane))
        wait_until(lambda: _ready(api) == nodes, "all nodes are ready", within_s=_SOON_S)
        world = ("benchmarks.kube.world", plane.write_kubeconfig(plane.platform_token), *teams)
        environment = {"ALLOTMENT_DATABASE_URL": database}
        yield Installation(
            stack.enter_context(run_platform(world=world, environment=environment)), plane, api
        )


def _nodes(api: Cluster, whole: int, parts: bool) -> int:
    """Create the nodes with one call each; kwok adds the rest. Returns how many."""

    def node(name: str, model: str, memory: int, cards: Json, annotations: Json | None = None) -> None:
        labels = {"nvidia.com/gpu.product": model, "nvidia.com/gpu.memory": str(memory)}
        status = {"capacity": {**_SIZE, **cards}, "allocatable": {**_SIZE, **cards}}
        metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
        api.call("POST", "/api/v1/nodes", {"metadata": metadata, "status": status})

    for number in range(1, whole + 1):
        node(f"whole-{number:02d}", "A100-40G", 40_960, {"nvidia.com/gpu": str(CARDS)})
    if not parts:
        return whole
    for name in CUT:
        register = [
            {"id": f"GPU-{name}-{index}", "index": index, "count": PARTS, "devmem": MEMORY_MIB,
             "devcore": 100, "type": "L40S", "health": True}
            for index in range(CARDS)
        ]  # fmt: skip
        parts = {"nvidia.com/gpu": str(CARDS * PARTS)}
        node(name, "L40S", MEMORY_MIB, parts, {hami.REGISTER: json.dumps(register)})
    for name in MIG:
        node(name, "H100", 81_920, {"nvidia.com/mig-1g.10gb": str(INSTANCES)})
    return whole + len(CUT) + len(MIG)


def _ready(api: Cluster) -> int:
    return sum(
        any(
            part["type"] == "Ready" and part["status"] == "True"
            for part in node["status"].get("conditions", ())
        )
        and not node["spec"].get("taints")
        for node in api.items("/api/v1/nodes")
    )
