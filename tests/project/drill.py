"""Steps of what may happen to platforms and to the cluster that they fill; see `test_card_drill`."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.support.control_plane import ControlPlane
from clusters.models import Cluster as ClusterRow
from clusters.services.flavor import flavor_add, flavors_found
from foundation.core.actor import SYSTEM
from foundation.models import Installation
from foundation.models.installation import installation_id
from scheduling.job_file import parse_job
from scheduling.models import Job
from scheduling.services.jobs.job import job_cancel, job_submit
from tenants.models import Role, Tenant, User
from tests.builders import clusters, jobs, quotas, tenancy
from tests.fixtures.card_watch import BY_HAND
from tests.fixtures.kubelet import Cluster, Json
from tests.fixtures.platforms import Platform
from tests.fixtures.wait import wait_until

CARDS: Final = 8
NODES: Final = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
MANAGED: Final = {"app.kubernetes.io/managed-by": "allotment"}
JOB: Final = "allotment.io/job"
_PODS: Final = "/api/v1/namespaces/{0}/pods"
_LABELS: Final = {"nvidia.com/gpu.product": "A100-40G", "nvidia.com/gpu.memory": "40960"}
_WITHIN_S: Final = 60.0
_ENDED: Final = ("succeeded", "failed", "cancelled")
Query = tuple[Any, ...]


class Drill:
    """Two platforms, one cluster of four nodes. `first` is its owner and runs, between any two steps."""

    def __init__(self, plane: ControlPlane, first: Platform, second: Platform, folder: Path) -> None:
        self.api, self.first, self.second = Cluster(plane), first, second
        self._kubeconfig, self._folder = str(plane.write_kubeconfig(plane.platform_token)), folder
        self._numbers = iter(range(10_000))
        self._ids: dict[str, str] = {}

    # Beginning

    def begin(self) -> None:
        """Create the nodes, and set both platforms up; the first is given the cluster and started."""
        size = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(CARDS)}
        self.api.namespace("theirs")
        for name in NODES:
            body = {"metadata": {"name": name, "labels": _LABELS}}
            self.api.call(
                "POST", "/api/v1/nodes", {**body, "status": {"capacity": size, "allocatable": size}}
            )
        wait_until(
            lambda: not any(node["spec"].get("taints") for node in self.api.items("/api/v1/nodes")),
            "all nodes are ready",
            within_s=_WITHIN_S,
        )
        for platform, slug in ((self.first, "team-a"), (self.second, "team-b")):
            with platform.entered():
                Installation.unscoped.update(uuid=uuid.uuid4())  # the databases are copies of one template
                installation_id.cache_clear()
                self._ids[slug] = str(installation_id())
                tenancy.platform_admin()
                clusters.cell()
                tenancy.user("ed", tenancy.workspace(slug), Role.EDITOR)
                jobs.priority_class()
        self.connect(self.first)
        self.first.start()

    def connect(self, platform: Platform, *words: str) -> None:
        """Add the cluster to a platform, with a queue for its team."""
        done = self.add(platform, "east", *words)
        assert done[0] == 0, done[1]
        with platform.entered():
            cluster = ClusterRow.unscoped.get()
            for plan in flavors_found(acting_user=SYSTEM, cluster=cluster):
                flavor_add(acting_user=SYSTEM, cluster=cluster, plan=plan)
            workspace = Tenant.unscoped.get(kind="workspace")
            quotas.queue(cluster.cell, workspace, list(cluster.flavors.all()), cards=CARDS * len(NODES))

    def add(self, platform: Platform, name: str, *words: str) -> tuple[int, str]:
        """Ask a platform to add the cluster by some name; returns the exit status and the output."""
        done = platform.command("cluster", "add", name, "--path", self._kubeconfig, *words)
        return done.returncode, done.stdout + done.stderr

    def id_of(self, platform: Platform) -> str:
        """Return the id of an installation."""
        return self._ids["team-a" if platform is self.first else "team-b"]

    # Jobs

    def submit(
        self, *, cards: int = CARDS, replicas: int = 1, name: str = "", by: Platform | None = None
    ) -> str:
        """Submit a job; returns its name."""
        name = name or f"job-{next(self._numbers)}"
        resources = {"cpu": 1, "memory": "1Gi", "gpu": {"cards": cards}}
        body = {"name": name, "roles": [{"replicas": replicas, "image": "x", "resources": resources}]}
        with (by or self.first).entered():
            user, workspace = User.objects.get(username="ed"), Tenant.unscoped.get(kind="workspace")
            job_submit(acting_user=user, workspace=workspace, spec=parse_job(body))
        return name

    def cancel(self, name: str) -> None:
        """Cancel a job."""
        with self.first.entered():
            job = Job.unscoped.select_related("queue", "workspace").get(name=name)
            job_cancel(acting_user=User.objects.get(username="ed"), job=job)

    def states(self, platform: Platform | None = None) -> dict[str, tuple[str, int]]:
        """Return state and attempt of each job."""
        rows = (platform or self.first).rows("SELECT name, state, attempt_number FROM scheduling_job")
        return {name: (state, attempt) for name, state, attempt in rows}

    def wait_state(self, name: str, state: str, by: Platform | None = None) -> None:
        """Wait until a job is in that state."""
        wait_until(
            lambda: self.states(by)[name][0] == state, f"{name} is {state}", within_s=_WITHIN_S, every_s=0.2
        )

    def pods(self, name: str = "", team: str = "team-a") -> list[Json]:
        """Return the present pods of a job, or of all jobs."""
        found = self.api.items(_PODS.format(team))
        return [pod for pod in found if pod["metadata"]["name"].startswith(name)]

    def uids(self, name: str = "") -> set[str]:
        """Return the uids of the pods."""
        return {pod["metadata"]["uid"] for pod in self.pods(name)}

    def finish(self, name: str, team: str = "team-a") -> None:
        """Let all pods of a job end successfully."""
        for pod in self.pods(f"{name}-", team):
            path = f"{_PODS.format(team)}/{pod['metadata']['name']}/status"
            self.api.answer("PATCH", path, {"status": {"phase": "Succeeded"}})

    def delete_pods(self, pods: list[Json]) -> None:
        """Delete pods, as a user of kubectl does."""
        for pod in pods:
            path = f"{_PODS.format(pod['metadata']['namespace'])}/{pod['metadata']['name']}"
            self.api.answer("DELETE", path, {"gracePeriodSeconds": 0})

    # Changes in the cluster from outside

    def make_ghost(self, name: str, node: str) -> None:
        """Create a pod that looks like one of the platform's, on all cards of a node."""
        labels = {**MANAGED, "allotment.io/installation": self._ids["team-a"], JOB: str(uuid.uuid4())}
        labels |= {"allotment.io/attempt": "1", "allotment.io/hold": str(uuid.uuid4())}
        container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": str(CARDS)}}}
        body = {
            "metadata": {"name": name, "labels": labels, "annotations": {BY_HAND: "yes"}},
            "spec": {"nodeName": node, "schedulerName": "allotment", "containers": [container]},
        }
        self.api.call("POST", _PODS.format("theirs"), body)

    def ghosts(self) -> list[Json]:
        """Return the pods that were created by hand."""
        return self.api.items(_PODS.format("theirs"))

    def remove_labels(self, pod: Json) -> None:
        """Remove every label of a pod."""
        gone = dict.fromkeys(pod["metadata"].get("labels") or {})
        path = f"{_PODS.format('team-a')}/{pod['metadata']['name']}"
        self.api.answer("PATCH", path, {"metadata": {"labels": gone}})

    def add_second_name(self) -> None:
        """Check that the same cluster under a second name is refused."""
        status, told = self.add(self.first, "east2")
        assert status != 0
        assert "already added as east" in told, told

    # Failures of platforms

    def create_late(self) -> None:
        """Stop a worker before it creates a pod, until its cards were given to another job."""
        (self.first.faults / "execute.before_ensure").write_text("stop", encoding="utf-8")
        late = self.submit()
        reason = "SELECT reason FROM scheduling_job WHERE name = %s"
        evaluated = ("PENDING_EVALUATION", "")
        wait_until(
            lambda: self.first.stopped() or self.first.rows(reason, late)[0][0] not in evaluated,
            "a worker sleeps, or there is no room for the job",
            within_s=_WITHIN_S,
        )
        with suppress(FileNotFoundError):
            (self.first.faults / "execute.before_ensure").unlink()
        asleep = self.first.stopped()
        self.cancel(late)
        other = self.submit()
        self.wait_state(late, "cancelled")
        wait_until(
            lambda: self.first.rows(reason, other)[0][0] != "PENDING_EVALUATION",
            "its cards are given to another job",
            within_s=_WITHIN_S,
        )
        for pid in asleep:
            os.kill(pid, signal.SIGCONT)
        self.wait_observed()
        assert not self.pods(f"{late}-"), "a pod of a hold that was given back is there"

    def wait_observed(self) -> None:
        """Wait until the first platform has observed the cluster twice more."""
        query = "SELECT observed_at FROM clusters_cluster"
        for _ in range(2):
            before = self.first.rows(query)
            wait_until(lambda seen=before: self.first.rows(query) != seen, "another look", within_s=_WITHIN_S)

    def restore(self, meanwhile: Callable[[], object]) -> None:
        """Lose the database: the backup does not contain what happens `meanwhile`."""
        backup = self._folder / f"backup-{next(self._numbers)}"
        self.first.dump(backup)
        meanwhile()
        self.first.kill()
        self.first.restore(backup)
        self.first.start()
        self.have_back(self.first, self.id_of(self.first))

    def hand_over(self, *, forgetful: bool, meanwhile: Callable[[], object]) -> None:
        """The second platform takes the cluster over from the first, does its work, and gives it back.

        With `forgetful` the first one is started while it is not the owner.
        """
        self.first.kill()
        if not self.second.rows("SELECT 1 FROM clusters_cluster"):
            status, told = self.add(self.second, "east")
            assert status != 0
            assert self.id_of(self.first) in told, told
            self.connect(self.second, "--take-over", self.id_of(self.first))
            self.second.start()
            self.wait_open(self.second)
        else:
            self.second.start()
            self.have_back(self.second, self.id_of(self.first))
        if forgetful:
            self.first.start()
            self.wait_health(self.first, "disowned")
        meanwhile()
        self.second.kill()
        self.first.kill()
        self.first.start()
        self.have_back(self.first, self.id_of(self.second))

    def have_back(self, platform: Platform, owner: str) -> None:
        """Take the cluster over as soon as the platform reports that another platform or database ran it."""
        confirmed = platform.rows("SELECT owner_at FROM clusters_cluster")

        def known() -> bool:
            health = platform.rows("SELECT health, owner_at FROM clusters_cluster")
            return health[0][0] == "disowned" or [health[0][1:]] != confirmed

        wait_until(known, "the owner is known", within_s=_WITHIN_S, every_s=0.2)
        if platform.rows("SELECT health FROM clusters_cluster") == [("disowned",)]:
            there = self.uids()
            done = platform.command("cluster", "take-over", "east", "--owner", owner, "--restarting", "start")
            assert done.returncode == 0, done.stdout + done.stderr
            assert self.uids() == there, "nothing is done before a person has looked"
        self.wait_open(platform)

    def wait_health(self, platform: Platform, health: str) -> None:
        """Wait until a platform sees the cluster in this health."""
        query = "SELECT health FROM clusters_cluster"
        wait_until(
            lambda: platform.rows(query) == [(health,)], f"it is {health}", within_s=_WITHIN_S, every_s=0.2
        )

    def wait_open(self, platform: Platform) -> None:
        """Wait until a platform uses the cluster."""
        query = "SELECT 1 FROM clusters_cluster WHERE opens_at IS NULL AND listed_at IS NOT NULL"
        wait_until(lambda: platform.rows(query), "it uses the cluster", within_s=_WITHIN_S, every_s=0.2)

    # End

    def unknown(self) -> list[Json]:
        """Return pods of jobs of which the first platform's database has no row any more."""
        known = {str(row[0]) for row in self.first.rows("SELECT id FROM scheduling_job")}
        return [pod for pod in self.pods() if (pod["metadata"].get("labels") or {}).get(JOB, "") not in known]

    def settle(self) -> None:
        """Let all work end; then nothing is held any more."""
        self.delete_pods([*self.ghosts(), *self.pods(team="team-b")])
        self.delete_pods([pod for pod in self.unknown() if pod["metadata"].get("labels")])

        def over() -> bool:
            self.finish("job")
            # The platform may remove only pods with its labels; the drill removes those without.
            bare = [pod for pod in self.pods() if not pod["metadata"].get("labels")]
            self.delete_pods([pod for pod in bare if pod["status"].get("phase") == "Succeeded"])
            return all(state in _ENDED for state, _ in self.states().values()) and not self.pods()

        try:
            wait_until(over, "all jobs have ended", within_s=90, every_s=1.0)
        except AssertionError as error:
            left = [(pod["metadata"]["name"], pod["status"].get("phase")) for pod in self.pods()]
            raise AssertionError(f"{error}; {self.states()}; {left}") from error
        held = (
            "SELECT (SELECT count(*) FROM quotas_ledgerentry WHERE used > 0),"
            " (SELECT count(*) FROM clusters_device WHERE holders > 0 OR cores_granted > 0),"
            " (SELECT count(*) FROM scheduling_allocation WHERE released_at IS NULL)"
        )
        assert self.first.rows(held) == [(0, 0, 0)]
