"""From a request to pods on the nodes of a real API server; the cluster's own state is what counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.gpu import hami
from tests.e2e.real_cluster import CARDS, CUT, MEMORY_MIB, MIG, MODEL, Installation, installation
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.wait import wait_until

pytestmark = [pytest.mark.server, pytest.mark.timeout(240)]
# A workspace for each test, so that no test waits for the leftovers of another. No workspace borrows.
TEAMS = (
    "ends=24:0",
    "gives-way=8:0",
    "gang=32:0",
    "parts=8:0",
    "mig=32:0",
    "drained=8:0",
    "tainted=8:0",
    "lost=8:0",
)


@pytest.fixture(scope="module")
def cluster(
    kube: ControlPlane, postgres_server: PostgresServer, migrated_database: str
) -> Iterator[Installation]:
    name = postgres_server.create_database(template=migrated_database)
    with installation(kube, postgres_server.database_url(name), TEAMS) as it:
        yield it
    postgres_server.drop_database(name)


def ends(cluster: Installation, team: str, job: str) -> None:
    wait_until(lambda: cluster.job(team, job)["state"] == "succeeded", "the job has ended", within_s=40)


def node_of(pods: dict[str, dict[str, dict[str, str]]]) -> str:
    (pod,) = pods.values()
    return pod["spec"]["nodeName"]


def test_a_job_runs_where_it_was_placed_and_ends(cluster: Installation) -> None:
    job = cluster.submit("ends", replicas=3)
    pods = cluster.runs("ends", job, 3)
    for pod in pods.values():
        assert pod["spec"]["schedulerName"] == "allotment"
        assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == str(CARDS)
    assert len({pod["spec"]["nodeName"] for pod in pods.values()}) == 3
    cluster.finish(pods)
    ends(cluster, "ends", job)
    owners = f"/api/v1/namespaces/ends/configmaps?labelSelector=allotment.io/job={job}"
    wait_until(lambda: not cluster.pods("ends") and not cluster.api.items(owners), "nothing is left")


def test_a_job_of_higher_priority_gets_the_cards_once_they_are_free(cluster: Installation) -> None:
    low = cluster.submit("gives-way", name="low")
    cluster.runs("gives-way", low)
    since = cluster.version()
    high = cluster.submit("gives-way", name="high", priority="high")
    pods = cluster.runs("gives-way", high)
    assert cluster.comings_and_goings("gives-way", since) == [("DELETED", low), ("ADDED", high)]
    cluster.finish(pods)
    cluster.runs("gives-way", low)
    # The pod that has ended holds no card: it is deleted last, after the pods that other jobs wait for.
    rest = {("DELETED", high), ("ADDED", low)}
    wait_until(
        lambda: set(cluster.comings_and_goings("gives-way", since)[2:]) == rest, "the ended pod is gone"
    )


def test_a_gang_comes_whole_or_not_at_all(cluster: Installation) -> None:
    first = cluster.submit("gang", name="first")
    held = cluster.runs("gang", first)
    since = cluster.version()
    gang = cluster.submit("gang", name="gang", replicas=4)
    wait_until(
        lambda: cluster.job("gang", gang)["reason"]["code"] not in ("", "PENDING_EVALUATION"),
        "the gang was looked at",
    )
    assert not cluster.pods("gang", gang)  # three of its four tasks would fit
    cluster.finish(held)
    pods = cluster.runs("gang", gang, 4)
    assert cluster.comings_and_goings("gang", since).count(("ADDED", gang)) == 4
    assert len({pod["spec"]["nodeName"] for pod in pods.values()}) == 4
    (service,) = cluster.api.items(f"/api/v1/namespaces/gang/services?labelSelector=allotment.io/job={gang}")
    assert service["spec"]["clusterIP"] == "None"
    assert {pod["spec"]["subdomain"] for pod in pods.values()} == {service["metadata"]["name"]}


def test_parts_of_cards_are_held_as_decided_and_never_more_than_there_is(cluster: Installation) -> None:
    part = {"cards": 1, "mode": "slice", "cores": 40, "memory": "16Gi"}
    job = cluster.submit("parts", replicas=5, gpu=part)

    def served() -> bool:
        for node in CUT:
            cluster.serve_parts(node)
        words = [pod["metadata"].get("annotations") or {} for pod in cluster.pods("parts", job).values()]
        return [word.get(hami.PHASE) for word in words] == [hami.PHASE_SUCCESS] * 5

    wait_until(served, "the device plugin has served every pod", within_s=60)
    pods = cluster.runs("parts", job, 5)
    held = {
        name: hami.decode_shares(pod["metadata"]["annotations"][hami.ALLOCATED])[0]
        for name, pod in pods.items()
    }
    decided = {
        task["allocation"]["pod"]: [(part["uuid"], part["cores"]) for part in task["devices"]]
        for task in cluster.tasks("parts", job)
    }
    assert {name: [(share.uuid, share.cores) for share in shares] for name, shares in held.items()} == decided
    cores, memory = Counter[str](), Counter[str]()
    for shares in held.values():
        for share in shares:
            cores[share.uuid] += share.cores
            memory[share.uuid] += share.memory_mib
    assert max(cores.values()) <= 100
    assert max(memory.values()) <= MEMORY_MIB
    for node in CUT:
        annotations = cluster.api.call("GET", f"/api/v1/nodes/{node}")["metadata"]["annotations"]
        assert hami.LOCK not in annotations


def test_mig_instances_are_asked_for_by_their_profile(cluster: Installation) -> None:
    job = cluster.submit("mig", replicas=2, gpu={"cards": 2, "mode": "mig", "profile": "1g.10gb"})
    for pod in cluster.runs("mig", job, 2).values():
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        assert {name: n for name, n in limits.items() if "nvidia" in name} == {"nvidia.com/mig-1g.10gb": "2"}
        assert pod["spec"]["nodeName"] in MIG


def test_a_drained_node_is_left_and_its_job_goes_on_elsewhere(cluster: Installation) -> None:
    job = cluster.submit("drained")
    node = node_of(cluster.runs("drained", job))
    since = cluster.version()
    cluster.kubectl("drain", node, "--timeout=40s")
    assert node_of(cluster.runs("drained", job)) != node
    assert cluster.comings_and_goings("drained", since) == [("DELETED", job), ("ADDED", job)]
    assert not cluster.api.items(f"/api/v1/pods?fieldSelector=spec.nodeName={node}")
    cluster.kubectl("uncordon", node)


def test_of_a_tainted_node_the_cluster_takes_only_those_that_do_not_tolerate_it(
    cluster: Installation,
) -> None:
    where = {"node_name": "whole-20"}
    mark = {"key": "maintenance", "effect": "NoExecute"}
    half = {"cards": CARDS // 2, "model": MODEL}
    tolerates = {**where, "tolerations": [{**mark, "operator": "Exists"}]}
    stays = cluster.submit("tainted", name="stays", gpu=half, placement=tolerates)
    leaves = cluster.submit("tainted", name="leaves", gpu=half, placement=where)
    before = cluster.runs("tainted", stays)
    cluster.runs("tainted", leaves)
    since = cluster.version()
    cluster.api.call("PATCH", "/api/v1/nodes/whole-20", {"spec": {"taints": [mark]}})
    wait_until(lambda: not cluster.pods("tainted", leaves), "the pod is evicted", within_s=40)
    assert cluster.comings_and_goings("tainted", since) == [("DELETED", leaves)]
    after = cluster.runs("tainted", stays)
    assert [pod["metadata"]["uid"] for pod in after.values()] == [
        pod["metadata"]["uid"] for pod in before.values()
    ]
    cluster.api.call("PATCH", "/api/v1/nodes/whole-20", {"spec": {"taints": None}})


def test_a_lost_machine_takes_its_pod_along_and_the_job_starts_again(cluster: Installation) -> None:
    job = cluster.submit("lost")
    node = node_of(cluster.runs("lost", job))
    since = cluster.version()
    cluster.api.call("DELETE", f"/api/v1/nodes/{node}", {})
    wait_until(
        lambda: ("DELETED", job) in cluster.comings_and_goings("lost", since),
        "the pod was given up",
        within_s=40,
    )
    assert node_of(cluster.runs("lost", job)) != node
    assert cluster.comings_and_goings("lost", since) == [("DELETED", job), ("ADDED", job)]
