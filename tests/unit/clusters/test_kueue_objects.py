"""The quota tree as Kueue's objects, and Kueue's conditions as verdicts; neither needs a cluster."""

from __future__ import annotations

import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from clusters.backends.delegation import (
    Cohort,
    DelegatedPodSet,
    DelegatedWorkload,
    ProjectedFlavor,
    ProjectedPriority,
    Projection,
    QueueRules,
    QuotaLimit,
    VerdictKind,
)
from clusters.backends.kueue.amounts import parse_quantity
from clusters.backends.kueue.names import key_of, name_of
from clusters.backends.kueue.objects import projected_objects
from clusters.backends.kueue.projecting import merge_patch
from clusters.backends.kueue.workloads import build_workload, read_verdict, shape_of

WHOLE, CUT, ROOT, QUEUE, CLASS = (str(uuid.UUID(int=number)) for number in range(1, 6))
RULES = QueueRules(id=QUEUE, name="train", parent=ROOT, namespace="team-a", workspace="w", pools=(WHOLE, CUT))
TREE = Projection(
    pools=(
        ProjectedFlavor(id=WHOLE, name="a100", node_labels={"pool": "a"}, card_memory_mib=40_000),
        ProjectedFlavor(
            id=CUT, name="l40s", node_labels={"pool": "l"}, gpu_mode="slice", card_memory_mib=46_000
        ),
    ),
    cohorts=(Cohort(id=ROOT, name="root", parent=None, weight_milli=1500),),
    queues=(RULES,),
    priorities=(ProjectedPriority(CLASS, "normal", 10),),
)


def made(projection: Projection = TREE) -> dict[str, dict[str, Any]]:
    return {
        item.plural: item.content for item in projected_objects(projection, "owner", "here") if item.content
    }


def resources(*limits: QuotaLimit, pool: str = WHOLE) -> dict[str, dict[str, str]]:
    """Return the limits of the queue in one pool, by resource."""
    spec = made(replace(TREE, queues=(replace(RULES, limits=limits),)))["clusterqueues"]["spec"]
    (group,) = spec["resourceGroups"]
    assert [item["name"] for item in group["flavors"]] == [name_of(WHOLE), name_of(CUT)]
    (flavor,) = (item for item in group["flavors"] if item["name"] == name_of(pool))
    assert [item["name"] for item in flavor["resources"]] == group["coveredResources"]
    return {item.pop("name"): item for item in flavor["resources"]}


def test_every_object_is_named_by_id_and_marked_as_ours() -> None:
    for item in projected_objects(TREE, "owner", "here"):
        metadata = item.content["metadata"]
        assert key_of(metadata["name"])
        assert metadata["labels"]["allotment.io/cluster"] == "owner"
        assert metadata["labels"]["allotment.io/installation"] == "here"
    assert build_workload(ASKED, "owner", "here")["metadata"]["labels"]["allotment.io/installation"] == "here"
    assert key_of("allotment-of-somebody") == ""


def test_whole_cards_are_counted_in_cards_by_the_tightest_limit() -> None:
    told = resources(
        QuotaLimit(WHOLE, "gpu.cards", 8, 4, 2),
        QuotaLimit(WHOLE, "gpu.cores", 600),
        QuotaLimit(WHOLE, "gpu.memory", 300_000, None, 40_000),
    )
    assert told["nvidia.com/gpu"] == {"nominalQuota": "6", "borrowingLimit": "4", "lendingLimit": "1"}
    assert told["allotment.io/gpu-cores"] == {"nominalQuota": "0"}


def test_parts_of_cards_are_counted_as_they_are() -> None:
    told = resources(
        QuotaLimit(CUT, "gpu.cards", 9),
        QuotaLimit(CUT, "gpu.cores", 350),
        QuotaLimit(CUT, "gpu.memory", 9_000),
        pool=CUT,
    )
    names = ("nvidia.com/gpu", "allotment.io/gpu-cores", "allotment.io/gpu-memory")
    amounts = [told[name]["nominalQuota"] for name in names]
    assert amounts == ["9", "350", "9000"]


def test_units_are_written_out_and_nothing_is_zero_and_unlimited_lends_nothing() -> None:
    told = resources(QuotaLimit(WHOLE, "cpu", 4_000), QuotaLimit(WHOLE, "memory", None))
    assert told["cpu"]["nominalQuota"] == "4000m"
    assert told["memory"] == {"nominalQuota": "4Pi", "borrowingLimit": "0Mi", "lendingLimit": "0Mi"}
    assert told["nvidia.com/gpu"] == {"nominalQuota": "0"}


def test_rules_of_a_queue_are_written_in_words_that_kueue_takes() -> None:
    rules = replace(
        RULES, strategy="strict-fifo", stop_policy="hold", within="lower-priority", while_borrowing="any"
    )
    spec = made(replace(TREE, queues=(rules,)))["clusterqueues"]["spec"]
    assert (spec["queueingStrategy"], spec["stopPolicy"], spec["cohortName"]) == (
        "StrictFIFO",
        "Hold",
        name_of(ROOT),
    )
    # Kueue refuses a queue that preempts while borrowing and doesn't reclaim its own quota.
    assert spec["preemption"] == {
        "withinClusterQueue": "LowerPriority",
        "reclaimWithinCohort": "Never",
        "borrowWithinCohort": {"policy": "Never", "maxPriorityThreshold": None},
    }
    assert spec["flavorFungibility"]["preference"] is None


def test_a_root_does_not_borrow() -> None:
    root = replace(TREE.cohorts[0], limits=(QuotaLimit(WHOLE, "gpu.cards", 4, 1, 1),))
    spec = made(replace(TREE, cohorts=(root,)))["cohorts"]["spec"]
    assert spec["parentName"] is None
    cards = spec["resourceGroups"][0]["flavors"][0]["resources"][2]
    assert cards.keys() == {"name", "nominalQuota"}


@pytest.mark.parametrize(("text", "value"), [("1500m", "1.5"), ("1Ki", "1024"), ("2k", "2000"), (3, "3")])
def test_quantities_are_compared_by_value(text: object, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)
    assert parse_quantity("soon") is None


def test_only_what_differs_is_patched() -> None:
    wanted = {"spec": {"a": "1000m", "gone": None, "list": [{"q": "1Gi"}], "nodeLabels": {"x": "1"}}}
    same = {"spec": {"a": "1", "list": [{"q": "1024Mi"}], "nodeLabels": {"x": "1"}, "theirs": 1}}
    assert merge_patch(wanted, same) == {}
    other = {
        "spec": {"a": "2", "gone": 5, "list": [{"q": "1Gi", "more": 1}], "nodeLabels": {"x": "1", "y": "2"}}
    }
    assert merge_patch(wanted, other) == {
        "spec": {"a": "1000m", "gone": None, "list": [{"q": "1Gi"}], "nodeLabels": {"y": None}}
    }


GROUP = DelegatedPodSet(
    name="worker", count=4, least=2, cpu_millicores=500, memory_mib=1024, cards=2, pools=(WHOLE,)
)
ASKED = DelegatedWorkload(
    namespace="team-a", workspace="w", name="train-1", job="j", queue=QUEUE, priority_class=CLASS,
    priority=10, attempt=3,
    groups=(GROUP,),
)  # fmt: skip


def test_a_workload_counts_cards_of_each_task_and_names_its_flavors() -> None:
    (pod_set,) = build_workload(ASKED, "owner", "here")["spec"]["podSets"]
    assert (pod_set["count"], pod_set["minCount"]) == (4, 2)
    (container,) = pod_set["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "1024Mi", "nvidia.com/gpu": "2"}
    part = replace(
        GROUP, cores=60, gpu_memory_mib=100, node_affinity=[[{"key": "zone", "operator": "Exists"}], []]
    )
    (pod_set,) = build_workload(replace(ASKED, groups=(part,)), "owner", "here")["spec"]["podSets"]
    (container,) = pod_set["template"]["spec"]["containers"]
    assert container["resources"]["requests"]["allotment.io/gpu-cores"] == "60"
    affinity = pod_set["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [len(term["matchExpressions"]) for term in terms] == [2, 1]
    assert shape_of(ASKED) != shape_of(replace(ASKED, groups=(part,)))
    assert shape_of(ASKED) == shape_of(replace(ASKED, attempt=9))


def seen(conditions: dict[str, tuple[str, str, str]], **status: Any) -> dict[str, Any]:
    told = [
        {"type": kind, "status": value, "reason": reason, "message": message}
        for kind, (value, reason, message) in conditions.items()
    ]
    return {**build_workload(ASKED, "owner", "here"), "status": {"conditions": told, **status}}


def test_no_condition_is_no_verdict_yet() -> None:
    found = read_verdict(seen({}), {})
    assert (found.kind, found.code, found.attempt, found.reserved) == (VerdictKind.WAITING, "", 3, False)


_SHORT = "insufficient unused quota for cpu in flavor x, 1 more needed"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (f"couldn't assign flavors to pod set main: {_SHORT}", "WAITING_FOR_QUOTA"),
        (f"{_SHORT}. Pending the preemption of 1 workload(s)", "WAITING_FOR_PREEMPTED"),
        ("insufficient quota for cpu in flavor x, request (9) > maximum capacity (8)", "EXCEEDS_MAX_QUOTA"),
        ("ClusterQueue x is inactive", "QUEUE_STOPPED"),
        ("LocalQueue x doesn't exist", "QUEUE_STOPPED"),
        ("flavor x doesn't match node affinity", "NEVER_FITS"),
        ("something that a later Kueue says", ""),
    ],
)  # fmt: skip
def test_its_reason_is_the_nearest_code(message: str, code: str) -> None:
    found = read_verdict(seen({"QuotaReserved": ("False", "Pending", message)}), {})
    assert (found.kind, found.code, found.detail) == (VerdictKind.WAITING, code, message)


def test_flavors_are_named_by_the_names_that_people_know() -> None:
    message = f"insufficient unused quota for nvidia.com/gpu in flavor {name_of(WHOLE)}, 3 more needed"
    found = read_verdict(seen({"QuotaReserved": ("False", "Pending", message)}), {WHOLE: "a100"})
    assert found.numbers == {"resource": "nvidia.com/gpu", "flavor": "a100", "short": "3"}
    assert name_of(WHOLE) not in found.detail


@pytest.mark.parametrize(
    ("reason", "cause", "rule"),
    [
        ("Preempted", "InClusterQueue", "IN_QUEUE_PRIORITY"),
        ("Preempted", "InCohortReclaimWhileBorrowing", "RECLAIM_WHILE_BORROWING"),
        ("Preempted", "InCohortFairSharing", "FAIR_SHARE"),
        ("ClusterQueueStopped", "InClusterQueue", "QUEUE_DRAINED"),
        ("PodsReadyTimeout", "", "NOT_READY"),
    ],
)
def test_who_is_evicted_learns_the_rule_and_not_for_whom(reason: str, cause: str, rule: str) -> None:
    holds = {"QuotaReserved": ("True", "QuotaReserved", ""), "Admitted": ("True", "Admitted", "")}
    told = {
        "Evicted": ("True", reason, "preemptor path: /root/secret"),
        "Preempted": ("True", cause, "secret"),
    }
    found = read_verdict(seen({**holds, **told}), {})
    assert (found.kind, found.code, found.detail) == (VerdictKind.TERMINATING, rule, "")


def test_an_admission_says_where_and_how_many_and_an_end_is_an_end() -> None:
    holds = {"QuotaReserved": ("True", "QuotaReserved", ""), "Admitted": ("True", "Admitted", "")}
    flavors = {"cpu": name_of(WHOLE), "nvidia.com/gpu": name_of(WHOLE)}
    assigned = [{"name": "worker", "count": 3, "flavors": flavors}]
    found = read_verdict(seen(holds, admission={"podSetAssignments": assigned}), {})
    assert (found.kind, found.pools, found.counts) == (VerdictKind.ADMITTED, {"worker": WHOLE}, {"worker": 3})
    assert read_verdict(seen({**holds, "Finished": ("True", "", "")}), {}).kind is VerdictKind.ENDED
    assert read_verdict(seen(holds), {}, ours=False).job == ""
