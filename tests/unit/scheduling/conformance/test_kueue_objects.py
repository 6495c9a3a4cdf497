"""Kueue objects become engine parts; what cannot be read is named."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.conformance.errors import ObjectError
from scheduling.conformance.kueue.manifests import quantities
from scheduling.conformance.kueue.manifests.objects import (
    Aside,
    build_pending_job,
    flavor_resource,
    read_setup,
)
from scheduling.conformance.kueue.manifests.workloads import WorkloadReading
from scheduling.engine.model import (
    Charge,
    Extended,
    JobState,
    PreemptOthers,
    PreemptWithin,
    StopPolicy,
    Strategy,
    TopologyMode,
    WhenCan,
)

CEILING = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "resource", "expected"),
    [
        ("1", "cpu", 1000),
        ("500m", "cpu", 500),
        ("0.5", "cpu", 500),
        ("1n", "cpu", 1),
        ("1500m", "memory", 2),
        ("1Gi", "memory", 2**30),
        ("1G", "memory", 10**9),
        ("1e3", "gpu", 1000),
        ("1E3", "gpu", 1000),
        ("1E", "gpu", 10**18),
        ("100Ei", "gpu", CEILING),
        ("9223372036854775807", "gpu", CEILING),
        ("9223372036854775", "cpu", 9223372036854775000),
        ("9223372036854776", "cpu", CEILING),
        ("unlimited", "cpu", CEILING),
        (7, "gpu", 7),
        ("0", "gpu", 0),
    ],
)
def test_quantities_are_exact_and_stop_at_the_ceiling(text: str, resource: str, expected: int) -> None:
    assert quantities.parse_amount(text, resource) == expected
    assert quantities.parse_limit(text, resource) == (None if expected == CEILING else expected)


@pytest.mark.parametrize("text", ["", "x", "1x", "1.2.3", "-1", "1 Gi", True])
def test_what_is_no_quantity_is_refused(text: Any) -> None:
    with pytest.raises(quantities.KueueQuantityError):
        quantities.parse_amount(text, "cpu")


def test_the_first_slash_parts_flavor_and_resource() -> None:
    assert flavor_resource("default/example.com/gpu") == ("default", "example.com/gpu")


def cluster_queue(name: str = "cq", **spec: Any) -> dict[str, Any]:
    groups = [
        {
            "coveredResources": ["cpu", "gpu"],
            "flavors": [
                {
                    "name": "a",
                    "resources": [
                        {"name": "cpu", "nominalQuota": "2", "borrowingLimit": "1"},
                        {"name": "gpu", "nominalQuota": "4", "lendingLimit": "0"},
                    ],
                }
            ],
        }
    ]
    return {"metadata": {"name": name}, "spec": {"resourceGroups": groups, "namespaceSelector": {}, **spec}}


def workload(name: str = "w", **parts: Any) -> dict[str, Any]:
    container = {"resources": {"requests": {"cpu": "500m", "gpu": "1"}}}
    podset = {"name": "main", "count": 2, "template": {"spec": {"containers": [container]}}}
    spec = {"queueName": "lq", "podSets": [podset], **parts.pop("spec", {})}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec, **parts}


def world(**changes: Any) -> dict[str, Any]:
    return {
        "clusterQueues": [cluster_queue()],
        "resourceFlavors": [{"metadata": {"name": "a"}, "spec": {"nodeLabels": {"pool": "a"}}}],
        "localQueues": [{"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "cq"}}],
        "namespaces": [{"metadata": {"name": "ns", "labels": {"team": "x"}}}],
        "workloads": [workload()],
        **changes,
    }


def reserved(queue: str = "cq", *more: dict[str, Any]) -> dict[str, Any]:
    assigned = {
        "name": "main",
        "count": 2,
        "flavors": {"cpu": "a", "gpu": "a"},
        "resourceUsage": {"cpu": "1", "gpu": "2"},
    }
    return {
        "admission": {"clusterQueue": queue, "podSetAssignments": [assigned]},
        "conditions": [
            {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            *more,
        ],
    }


def test_a_cluster_queue_is_a_queue_and_a_leaf() -> None:
    found = read_setup(
        world(
            clusterQueues=[
                cluster_queue(
                    cohortName="all",
                    queueingStrategy="StrictFIFO",
                    fairSharing={"weight": "500m"},
                    flavorFungibility={"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "MayStopSearch"},
                    preemption={
                        "withinClusterQueue": "LowerPriority",
                        "reclaimWithinCohort": "Any",
                        "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 0},
                    },
                )
            ]
        )
    )
    queue = found.get_queue("cq")
    assert queue.effective_groups[0].resources == ("cpu", "gpu")
    assert queue.effective_groups[0].flavors == ("a",)
    assert queue.strategy is Strategy.STRICT_FIFO
    assert queue.preemption.within_queue is PreemptWithin.LOWER_PRIORITY
    assert queue.preemption.reclaim is PreemptOthers.ANY
    assert queue.preemption.while_borrowing is PreemptOthers.LOWER_PRIORITY
    assert queue.preemption.max_priority == 0
    assert queue.fungibility.when_can_borrow is WhenCan.TRY_NEXT_FLAVOR
    assert queue.fungibility.when_can_preempt is WhenCan.MAY_STOP_SEARCH
    nodes = {node.id: node for node in found.quota_nodes}
    assert nodes["cq"].parent == "cohort/all"
    assert nodes["cohort/all"].quotas == ()
    assert nodes["cq"].weight_milli == 500
    limits = {quota.key: quota for quota in nodes["cq"].quotas}
    assert limits["a", "cpu"].own_nominal == 2000
    assert limits["a", "cpu"].borrowing_limit == 1000
    assert limits["a", "cpu"].lending_limit is None
    assert limits["a", "gpu"].lending_limit == 0


def test_a_pending_workload_is_a_job_per_pod() -> None:
    job = read_setup(world()).get_job("ns/w")
    assert job.queue == "cq"
    assert job.user == "ns/lq"
    assert job.state is JobState.QUEUED
    assert job.roles[0].replicas == 2
    assert job.roles[0].request.cpu == 500
    assert job.roles[0].request.extended == (Extended("gpu", 1),)


def test_start_up_containers_and_overhead_count() -> None:
    spec = {
        "initContainers": [
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
            {"resources": {"requests": {"cpu": "3"}}},
        ],
        "containers": [
            {"resources": {"requests": {"cpu": "1"}}},
            {"resources": {"limits": {"cpu": "1"}}},
        ],
        "overhead": {"cpu": "10m"},
    }
    podset = {"name": "main", "count": 1, "template": {"spec": spec}}
    job = build_pending_job(workload(spec={"podSets": [podset]}), read_setup(world()).get_queue("cq"))
    assert job.roles[0].request.cpu == 3110


def test_a_total_of_the_export_wins_over_the_template() -> None:
    value = workload() | {"x-totalRequests": [{"name": "main", "count": 2, "requests": {"cpu": 5000}}]}
    job = build_pending_job(value, read_setup(world()).get_queue("cq"))
    assert job.roles[0].request.cpu == 2500
    assert job.roles[0].request.extended == ()


def test_a_reserved_workload_holds_quota() -> None:
    found = read_setup(world(workloads=[workload(status=reserved())]))
    assert found.get_job("ns/w").state is JobState.LIVE
    assert found.get_job("ns/w").admitted_at == 1767225600.0
    assert [a.charges for a in found.allocations] == [(Charge("a", "cpu", 1000), Charge("a", "gpu", 2))]
    snapshot = found.build_snapshot(used={"cq": {flavor_resource("a/gpu"): 1}})
    assert snapshot.quota.usage("cq", flavor_resource("a/gpu")) == 3


def test_pods_that_ended_give_their_quota_back() -> None:
    status = reserved() | {"reclaimablePods": [{"name": "main", "count": 1}]}
    found = read_setup(world(workloads=[workload(status=status)]))
    assert found.get_job("ns/w").roles[0].ended == 1
    assert found.allocations[0].charges == (Charge("a", "cpu", 500), Charge("a", "gpu", 1))
    kept = read_setup(world(workloads=[workload(status=status)]), WorkloadReading(reclaimable_pods=False))
    assert kept.allocations[0].charges == (Charge("a", "cpu", 1000), Charge("a", "gpu", 2))


def test_an_evicted_workload_is_terminating_while_it_holds_and_pending_afterwards() -> None:
    evicted = {"type": "Evicted", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}
    leaving = read_setup(world(workloads=[workload(status=reserved("cq", evicted))]))
    assert leaving.get_job("ns/w").state is JobState.LEAVING
    assert leaving.allocations[0].leaving
    gone = read_setup(world(workloads=[workload(status={"conditions": [evicted]})]))
    assert gone.get_job("ns/w").state is JobState.QUEUED
    assert gone.allocations == ()


@pytest.mark.parametrize(
    ("reason", "reading", "expected"),
    [
        ("PodsReadyTimeout", WorkloadReading(), 1767225605.0),
        ("PodsReadyTimeout", WorkloadReading(eviction_timestamp=False), 1767225600.0),
        ("AdmissionCheck", WorkloadReading(eviction_timestamp=False), 1767225605.0),
        ("Preempted", WorkloadReading(), 1767225600.0),
    ],
)
def test_where_an_evicted_workload_lines_up(reason: str, reading: WorkloadReading, expected: float) -> None:
    value = workload(
        status={
            "conditions": [
                {
                    "type": "Evicted",
                    "status": "True",
                    "reason": reason,
                    "lastTransitionTime": "2026-01-01T00:00:05Z",
                }
            ]
        }
    )
    value["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert build_pending_job(value, read_setup(world()).get_queue("cq"), reading).submitted_at == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"localQueues": []}, Aside.NO_LOCAL_QUEUE),
        (
            {"localQueues": [{"metadata": {"name": "lq", "namespace": "ns"}, "spec": {"clusterQueue": "x"}}]},
            Aside.NO_CLUSTER_QUEUE,
        ),
        ({"clusterQueues": [cluster_queue(stopPolicy="Hold")]}, Aside.CLUSTER_QUEUE_INACTIVE),
        ({"resourceFlavors": []}, Aside.CLUSTER_QUEUE_INACTIVE),
        ({"clusterQueues": [cluster_queue(namespaceSelector=None)]}, Aside.NAMESPACE_MISMATCH),
        (
            {"clusterQueues": [cluster_queue(namespaceSelector={"matchLabels": {"team": "y"}})]},
            Aside.NAMESPACE_MISMATCH,
        ),
        ({"workloads": [workload(spec={"active": False})]}, Aside.DEACTIVATED),
        (
            {"workloads": [workload(status={"conditions": [{"type": "Finished", "status": "True"}]})]},
            Aside.FINISHED,
        ),
    ],
)
def test_what_is_not_looked_at_is_noted(changes: dict[str, Any], expected: Aside) -> None:
    found = read_setup(world(**changes))
    assert found.aside == {"ns/w": expected}
    assert all(job.state is not JobState.QUEUED for job in found.jobs)


def test_a_ring_of_cohorts_makes_its_queues_inactive_and_still_reads() -> None:
    ring = [
        {"metadata": {"name": "one"}, "spec": {"parentName": "two"}},
        {"metadata": {"name": "two"}, "spec": {"parentName": "one"}},
    ]
    found = read_setup(
        world(
            cohorts=ring,
            clusterQueues=[cluster_queue(cohortName="one"), cluster_queue("free", cohortName="other")],
        )
    )
    assert found.inactive == {"cq": "its cohort is part of a cycle"}
    assert found.get_queue("cq").stop_policy is StopPolicy.HOLD
    assert found.get_queue("free").stop_policy is StopPolicy.NONE
    found.build_snapshot()


def test_topology_rules_are_read() -> None:
    request = {
        "required": "rack",
        "podSetSliceRequiredTopology": "host",
        "podSetSliceSize": 4,
        "podSetGroupName": "g",
    }
    podset = workload()["spec"]["podSets"][0] | {"topologyRequest": request}
    rule = (
        build_pending_job(workload(spec={"podSets": [podset]}), read_setup(world()).get_queue("cq"))
        .roles[0]
        .topology
    )
    assert rule is not None
    assert (rule.level, rule.mode) == ("rack", TopologyMode.REQUIRED)
    assert (rule.slice_level, rule.slice_size, rule.companions) == ("host", 4, "g")


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        (
            {"clusterQueues": [cluster_queue(queueingStrategy="Fifo")]},
            "ClusterQueue cq: spec.queueingStrategy",
        ),
        ({"clusterQueues": [cluster_queue(fairSharing={"weight": "heavy"})]}, "spec.fairSharing.weight"),
        ({"workloads": [workload(spec={"podSets": [{"name": "m", "count": "2"}]})]}, "spec.podSets[0].count"),
        ({"workloads": ["w"]}, "workloads[0]"),
    ],
)
def test_what_cannot_be_read_is_named(changes: dict[str, Any], where: str) -> None:
    with pytest.raises(ObjectError) as caught:
        read_setup(world(**changes))
    assert where in caught.value.where
