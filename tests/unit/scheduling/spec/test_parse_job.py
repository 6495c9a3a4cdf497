"""Job files: what is accepted, what is refused, and that all mistakes are reported at once."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from foundation.core.errors import Invalid
from scheduling.job_file import GpuSpec, load_text, parse_job
from scheduling.models import GpuRequestMode, JobKind

FULL = """
kind: pytorch
name: llama-sft
queue: default
priority_class: normal
preemptible: true
min_run_s: 600
max_run_s: 86400
checkpoint_interval_s: 1800
gang: {min_available: 5}
roles:
  - name: master
    replicas: 1
    image: pytorch/pytorch:2.8
    command: [python, train.py]
    resources: {cpu: 8, memory: 64Gi, gpu: {cards: 1, mode: whole}}
  - name: worker
    replicas: 8
    min_replicas: 4
    resources:
      cpu: 500m
      memory: 64Gi
      gpu: {cards: 1, mode: slice, cores: 30, memory: 20480Mi, model: [A100-40G, L40S]}
placement:
  node_name: null
  node_selector: {disktype: ssd}
  node_affinity: {required: [[{key: rack, operator: In, values: [r1, r2]}]]}
  tolerations: [{key: dedicated, value: team-a, effect: NoSchedule}]
lifecycle: [{on: task_failed, exit_codes: [137], do: restart_task, max: 3}]
environment: {KEY: value, NUMBER: 3}
volumes: [{claim: datasets, mount: /data, read_only: true}]
simulate: {run_s: 1200, exit_code: 0, gpu_utilisation: 0.7}
"""
SMALL: dict[str, Any] = {"name": "one", "roles": [{"resources": {"cpu": 1, "memory": "1Gi", "gpu": {}}}]}


def mistakes(**changes: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        parse_job(deepcopy(SMALL) | changes)
    assert caught.value.code == "SPEC_INVALID"
    return {error.field: error.code for error in caught.value.errors}


def gpu(**values: Any) -> dict[str, Any]:
    return {"roles": [{"resources": {"gpu": values}}]}


ZONED: dict[str, Any] = {"topology_key": "zone", "match_labels": {"app": "db"}}


def pods(**terms: Any) -> dict[str, Any]:
    return {"placement": {"pod_affinity": terms}}


def test_the_whole_file_of_the_interface_is_read() -> None:
    spec = parse_job(load_text(FULL))

    assert spec.kind is JobKind.PYTORCH
    assert spec.min_available == 5
    master, worker = spec.roles
    assert (master.cpu_millicores, master.memory_mib) == (8000, 65536)
    assert master.gpu is not None and master.gpu.mode is GpuRequestMode.WHOLE and master.gpu.cores == 100
    assert (worker.replicas, worker.min_replicas, worker.cpu_millicores) == (8, 4, 500)
    assert worker.gpu is not None
    assert (worker.gpu.cores, worker.gpu.memory_mib, worker.gpu.models) == (30, 20480, ("A100-40G", "L40S"))
    assert spec.environment == {"KEY": "value", "NUMBER": "3"}
    assert spec.placement["node_affinity"] == {
        "required": [[{"key": "rack", "operator": "In", "values": ["r1", "r2"]}]]
    }
    assert "node_name" not in spec.placement
    assert spec.simulate == {"run_s": 1200, "exit_code": 0, "gpu_utilisation": 0.7}


def test_demand_multiplies_cards_cores_and_replicas() -> None:
    spec = parse_job(load_text(FULL))

    assert spec.total_demand()["gpu.cards"] == 9
    assert spec.total_demand()["gpu.cores"] == 100 + 8 * 30
    assert spec.total_demand()["gpu.memory"] == 8 * 20480


def test_defaults() -> None:
    spec = parse_job({"roles": [{"replicas": 3}, {"name": "b", "replicas": 4, "min_replicas": 2}]})

    assert spec.kind is JobKind.BATCH
    assert (spec.queue, spec.priority_class, spec.preemptible) == ("default", "normal", True)
    assert spec.roles[0].min_replicas == 3
    assert spec.min_available == 5
    assert spec.roles[0].gpu is None
    assert spec.name.startswith("batch-")


def test_tags_are_any_visible_characters_each_once() -> None:
    odd = ["<script>alert(1)</script>", "🚀", "שלום עולם", "实验 12", "team:nlp", "100%", "x" * 63]
    spec = parse_job(SMALL | {"tags": [*odd, "team:nlp", 12]})
    assert spec.tags == (*odd, "12")
    assert parse_job(SMALL).tags == ()


def test_every_mistake_is_reported_at_once() -> None:
    found = mistakes(name="Not A Label", prioriti_class="x", min_run_s=-1, roles=[{"replicas": 0}])

    assert found == {
        "name": "FORMAT",
        "prioriti_class": "UNKNOWN",
        "min_run_s": "RANGE",
        "roles.0.replicas": "RANGE",
    }


def test_an_unknown_key_comes_with_a_suggestion() -> None:
    with pytest.raises(Invalid) as caught:
        parse_job(SMALL | {"prioriti_class": "x"})

    assert "priority_class" in caught.value.errors[0].message


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"roles": []}, {"roles": "REQUIRED"}),
        ({"roles": "many"}, {"roles": "TYPE"}),
        ({"kind": "spark"}, {"kind": "CHOICE"}),
        ({"tags": "baseline"}, {"tags": "TYPE"}),
        (
            {"tags": ["x" * 63, "a,b", "", " a", "a\tb", "a\u202eb", "x" * 64]},
            {f"tags.{place}": "FORMAT" for place in range(1, 6)} | {"tags.6": "TOO_LONG"},
        ),
        ({"tags": [f"t{number}" for number in range(21)]}, {"tags": "TOO_LONG"}),
        ({"preemptible": "yes"}, {"preemptible": "TYPE"}),
        ({"max_run_s": True}, {"max_run_s": "TYPE"}),
        ({"gang": {"min_available": 2}}, {"gang.min_available": "RANGE"}),
        (gpu(mode="mig"), {"roles.0.resources.gpu.profile": "REQUIRED"}),
        (gpu(mode="mig", profile="half"), {"roles.0.resources.gpu.profile": "FORMAT"}),
        (gpu(mode="mig", profile="2g.10gb", cores=30), {"roles.0.resources.gpu.cores": "CONTRADICTION"}),
        (gpu(mode="mig", profile="2g.10gb", cards=0), {"roles.0.resources.gpu.cards": "RANGE"}),
        (gpu(profile="2g.10gb"), {"roles.0.resources.gpu.profile": "CONTRADICTION"}),
        (gpu(mode="slice", cores=0, memory="1Gi"), {"roles.0.resources.gpu.cores": "RANGE"}),
        (gpu(mode="slice", cores=101, memory="1Gi"), {"roles.0.resources.gpu.cores": "QUANTITY"}),
        (gpu(mode="slice", cores=30), {"roles.0.resources.gpu.memory": "REQUIRED"}),
        (gpu(mode="slice", memory="1Gi"), {"roles.0.resources.gpu.cores": "REQUIRED"}),
        (gpu(mode="slice", cores=30, memory=20480), {"roles.0.resources.gpu.memory": "QUANTITY"}),
        (gpu(mode="slice", cores=30, memory="0Mi"), {"roles.0.resources.gpu.memory": "RANGE"}),
        (gpu(mode="slice", cores=30, memory="0%"), {"roles.0.resources.gpu.memory": "QUANTITY"}),
        (gpu(mode="whole", memory="1Gi"), {"roles.0.resources.gpu.memory": "CONTRADICTION"}),
        (gpu(cards=65), {"roles.0.resources.gpu.cards": "RANGE"}),
        ({"roles": [{"resources": {"cpu": "8 cores"}}]}, {"roles.0.resources.cpu": "QUANTITY"}),
        ({"roles": [{"resources": {"memory": 64}}]}, {"roles.0.resources.memory": "QUANTITY"}),
        ({"roles": [{"replicas": 4, "min_replicas": 5}]}, {"roles.0.min_replicas": "RANGE"}),
        ({"roles": [{"name": "a"}, {"name": "a"}]}, {"roles.1.name": "DUPLICATE"}),
        # The first twelve characters end in a hyphen, which a pod's name drops.
        (
            {"roles": [{"name": "long-worker"}, {"name": "long-worker-b"}]},
            {"roles.1.name": "DUPLICATE"},
        ),
        ({"roles": [{"replicas": 4096}] * 3}, {"roles": "RANGE"}),
        ({"environment": {"1X": "a"}}, {"environment.1X": "FORMAT"}),
        ({"environment": {"X": "a" * 70_000}}, {"environment": "TOO_LONG"}),
        (
            {"environment": {"NVIDIA_VISIBLE_DEVICES": "all"}},
            {"environment.NVIDIA_VISIBLE_DEVICES": "RESERVED"},
        ),
        ({"volumes": [{"claim": "c", "mount": "data"}]}, {"volumes.0.mount": "FORMAT"}),
        (
            {"volumes": [{"claim": "c", "mount": "/var/run/nvidia-container-devices/all"}]},
            {"volumes.0.mount": "RESERVED"},
        ),
        (
            {"placement": {"labels": {"hami.io/webhook": "ignore"}}},
            {"placement.labels.hami.io/webhook": "RESERVED"},
        ),
        ({"simulate": {"gpu_utilisation": 70}}, {"simulate.gpu_utilisation": "RANGE"}),
        ({"placement": {"topology": {"level": "row"}}}, {"placement.topology.level": "CHOICE"}),
        ({"placement": {"topology": {"mode": "required"}}}, {"placement.topology.level": "REQUIRED"}),
        (
            {"placement": {"topology": {"level": "rack", "mode": "maybe"}}},
            {"placement.topology.mode": "CHOICE"},
        ),
        ({"placement": {"pod_affinity": {"a": 1}}}, {"placement.pod_affinity.a": "UNKNOWN"}),
        (pods(required=[{}]), {"placement.pod_affinity.required.0.topology_key": "REQUIRED"}),
        (pods(required=["db"]), {"placement.pod_affinity.required.0": "TYPE"}),
        (pods(required=[{**ZONED, "weight": 5}]), {"placement.pod_affinity.required.0.weight": "UNKNOWN"}),
        (pods(preferred=[ZONED]), {"placement.pod_affinity.preferred.0.weight": "REQUIRED"}),
        (
            pods(preferred=[{**ZONED, "weight": 101}]),
            {"placement.pod_affinity.preferred.0.weight": "RANGE"},
        ),
        (
            pods(required=[{**ZONED, "match_labels": {"app": 1}}]),
            {"placement.pod_affinity.required.0.match_labels.app": "TYPE"},
        ),
        (
            pods(required=[{**ZONED, "match_labels": {"app": "a b"}}]),
            {"placement.pod_affinity.required.0.match_labels.app": "FORMAT"},
        ),
        (
            pods(
                required=[{**ZONED, "match_expressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}]
            ),
            {"placement.pod_affinity.required.0.match_expressions.0.operator": "CHOICE"},
        ),
        (
            pods(required=[{**ZONED, "namespaces": ["other"]}]),
            {"placement.pod_affinity.required.0.namespaces": "UNKNOWN"},
        ),
        ({"placement": {"labels": {"-a": "b"}}}, {"placement.labels.-a": "FORMAT"}),
        (
            {"placement": {"labels": {"allotment.io/job": "b"}}},
            {"placement.labels.allotment.io/job": "RESERVED"},
        ),
        (
            {"placement": {"node_affinity": {"preferred": [{"weight": 1}]}}},
            {"placement.node_affinity.preferred.0.match_expressions": "REQUIRED"},
        ),
        (
            {"placement": {"node_affinity": {"required": [[{"key": "a", "operator": "In"}]]}}},
            {"placement.node_affinity.required.0.0.values": "REQUIRED"},
        ),
        (
            {
                "placement": {
                    "node_affinity": {"required": [[{"key": "a", "operator": "Gt", "values": ["x"]}]]}
                }
            },
            {"placement.node_affinity.required.0.0.values": "FORMAT"},
        ),
        ({"placement": {"tolerations": [{"value": "a"}]}}, {"placement.tolerations.0.key": "REQUIRED"}),
        ({"lifecycle": [{"on": "task_failed"}]}, {"lifecycle.0.do": "REQUIRED"}),
        (
            {"lifecycle": [{"on": "role_completed", "role": "nobody", "do": "complete_job"}]},
            {"lifecycle.0.role": "CHOICE"},
        ),
        ({"name": ""}, {"name": "FORMAT"}),
        (
            {"lifecycle": [{"on": "task_failed", "role": "", "do": "restart_job"}]},
            {"lifecycle.0.role": "CHOICE"},
        ),
        (
            {"lifecycle": [{"on": "task_evicted", "exit_codes": [], "do": "restart_job"}]},
            {"lifecycle.0.exit_codes": "CONTRADICTION"},
        ),
        (
            {"lifecycle": [{"on": "task_failed", "do": "restart_job", "exit_codes": [300]}]},
            {"lifecycle.0.exit_codes.0": "RANGE"},
        ),
    ],
)
def test_mistakes(changes: dict[str, Any], expected: dict[str, str]) -> None:
    found = mistakes(**changes)

    assert {path: found.get(path) for path in expected} == expected


def test_placement_is_kept_in_one_form() -> None:
    wish = {"key": "disk", "operator": "In", "values": ["ssd"]}
    apart = {"topology_key": "node", "match_expressions": [{"key": "app", "operator": "Exists"}]}
    placement = {
        "labels": {"app": "db", "example.com/tier": ""},
        "node_affinity": {"preferred": [{"weight": 10, "match_expressions": [wish]}]},
        "pod_affinity": {"required": [ZONED], "preferred": [{"weight": 5, **ZONED}]},
        "pod_anti_affinity": {"required": [apart]},
        "topology": {"level": "rack"},
    }

    read = parse_job(SMALL | {"placement": placement}).placement

    exists = {"key": "app", "operator": "Exists", "values": []}
    assert read == placement | {
        "pod_anti_affinity": {"required": [{"topology_key": "node", "match_expressions": [exists]}]},
        "topology": {"level": "rack", "mode": "preferred"},
    }
    assert parse_job(SMALL | {"placement": read}).placement == read


def test_an_instance_by_its_profile() -> None:
    asked = parse_job(SMALL | gpu(mode="mig", profile="2g.10gb", cards=3, model="A100"))

    assert asked.roles[0].gpu is not None
    assert asked.roles[0].gpu == GpuSpec(
        cards=3, mode=GpuRequestMode.MIG, cores=0, models=("A100",), profile="2g.10gb"
    )
    assert asked.total_demand() == {"gpu.cards": 3}


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"])
def test_characters_that_no_database_can_store(text: str) -> None:
    assert mistakes(environment={"A": text})[""] == "TEXT"


def test_memory_in_percent() -> None:
    spec = parse_job(SMALL | gpu(mode="slice", cores="30%", memory="25%"))

    assert spec.roles[0].gpu is not None
    assert (spec.roles[0].gpu.memory_mib, spec.roles[0].gpu.memory_percent) == (None, 25)


@pytest.mark.parametrize(
    "text",
    ["- a", "a: [", "a: &x 1\nb: *x", "x" * 300_000, "", "!!python/object:os.system {}", "[" * 5000],
)
def test_text_that_is_no_job_file(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        load_text(text)

    assert caught.value.code == "YAML_INVALID"
