"""Limits on the size of a job file and of its pods, whichever field grows."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from clusters.backends.base import GangSpec, TaskRef, TaskSpec
from clusters.backends.kubernetes.pods.containers import config_maps
from clusters.backends.kubernetes.pods.pods import build_manifest
from foundation.core.errors import Invalid, TooLarge
from scheduling.execution.peers import Peers, peers_of
from scheduling.job_file import JobSpec, parse_job
from scheduling.job_file.parsing.size import FILE_BYTES_MAX, POD_BYTES_MAX
from scheduling.models import Job, JobRole, Task
from scheduling.models.pod_names import gang_name

FAT = ["x" * 4000] * 20
PROBE = {"command": ["y" * 4000] * 20}
SOURCES = [{"secret": "s" * 250, "prefix": f"A{n}_"} for n in range(16)]


def job(role: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": "one", "roles": [{"image": "img", **(role or {})}], **more}


def pod_of(spec: JobSpec) -> int:
    """Return the size of the requested pod, in bytes."""
    role = spec.roles[0]
    labels = {**spec.placement.get("labels", {}), "allotment.io/job": "j"}
    task = TaskSpec(
        ref=TaskRef("team", "p"),
        node="n",
        cpu_millicores=1,
        memory_mib=1,
        devices=(),
        image=role.image,
        command=role.command,
        environment=spec.environment,
        labels=labels,
        workspace="w",
        gang=GangSpec("one-1", 1, labels),
        options={
            **spec.runtime,
            **role.container,
            "volumes": spec.volumes,
            "tolerations": spec.placement.get("tolerations", ()),
        },
    )
    return len(json.dumps(build_manifest(task, "0" * 32)).encode())


@pytest.mark.parametrize(
    "body",
    [
        job({"command": FAT}),
        job({"args": FAT}),
        job({"command": FAT[:10], "args": FAT[:10]}),
        job({"probes": {"liveness": PROBE}}),
        job({"pre_stop": PROBE}),
        job({"command": FAT[:12]}, environment={"A": "x" * 20_000}),
        job({"command": FAT[:16]}, environment_from=SOURCES),
        job({"command": FAT[:14]}, volumes=[{"claim": "c", "mount": f"/{n}{'m' * 1000}"} for n in range(12)]),
        job({"command": FAT[:15]}, placement={"labels": {f"{'k' * 50}{n}": "v" * 60 for n in range(60)}}),
        job({"command": ["\u4e2d" * 4000] * 8}),
    ],
    ids=lambda body: "-".join([*body["roles"][0], *list(body)[2:]]),
)
def test_a_role_whose_pods_would_be_too_large_is_refused_by_its_place(body: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as caught:
        parse_job(body)
    assert [(error.field, error.code) for error in caught.value.errors] == [("roles.0", "TOO_LONG")]
    assert "maximum: 64" in caught.value.errors[0].message


def test_the_role_that_is_too_large_is_the_one_that_is_named() -> None:
    body = job(roles=[{"name": "small", "image": "img"}, {"name": "fat", "image": "img", "command": FAT}])
    with pytest.raises(Invalid) as caught:
        parse_job(body)
    assert [error.field for error in caught.value.errors] == ["roles.1"]


def test_what_is_just_small_enough_makes_a_pod_far_below_what_a_cluster_stores() -> None:
    names = {f"V{n}": {"secret": "s", "key": "k"} for n in range(200)}
    mounts = [{"claim": "c", "mount": f"/{n}"} for n in range(32)]
    tolerations = [{"key": f"t{n}", "operator": "Exists"} for n in range(64)]
    body = job({}, environment=names, volumes=mounts, placement={"tolerations": tolerations})
    room = 64
    while room:
        body["roles"][0]["command"] = ["x" * 1000] * room
        try:
            spec = parse_job(body)
            break
        except Invalid:
            room -= 1
    assert room > 30
    assert pod_of(spec) < 2 * POD_BYTES_MAX


def gang_of(name: str, tasks: int, kind: str = "mpi", role: str = "worker-group") -> Peers:
    """Return the peers of the accepted job's tasks, in its thousandth attempt."""
    cards = {"image": "img", "resources": {"gpu": {"cards": 8}}}
    sizes = [min(tasks - start, 4000) for start in range(0, tasks, 4000)]
    roles = [{"name": f"{n}-{role}", "replicas": size, **cards} for n, size in enumerate(sizes)]
    spec = parse_job({"name": name, "kind": kind, "roles": roles})
    made = Job(name=spec.name, kind=spec.kind)
    sizes = [(each.name, {"replicas": each.replicas, "min_replicas": each.replicas}) for each in spec.roles]
    rows = [(JobRole(job=made, name=name, gpu_cards=8, **size), size["replicas"]) for name, size in sizes]
    return peers_of(made, 1000, [Task(role=row, index=n) for row, count in rows for n in range(count)])


@pytest.mark.parametrize("kind", ["mpi", "batch"])
def test_a_job_of_ten_thousand_tasks_has_files_that_a_cluster_stores(kind: str) -> None:
    peers = gang_of("weather-forecast", 10_000, kind)
    assert len(peers.hosts) == 10_000
    gang = GangSpec(gang_name(peers.job, 1000), len(peers.hosts), {}, peers.files)
    maps = config_maps(gang)
    assert {file: text for files in maps.values() for file, text in files.items()} == peers.files
    for files in maps.values():
        assert sum(len(name) + len(text) for name, text in files.items()) <= 1024 * 1024


@pytest.mark.parametrize("kind", ["mpi", "batch"])
def test_names_too_long_for_so_many_tasks_are_refused_with_the_number_that_fits(kind: str) -> None:
    name = "n" * 60
    with pytest.raises(Invalid) as caught:
        gang_of(name, 10_000, kind)
    (error,) = caught.value.errors
    assert (error.field, error.code) == ("roles", "TOO_LONG")
    (most,) = re.findall(r"at most (\d+) tasks", error.message)
    assert 8_000 < int(most) < 10_000
    peers = gang_of(name, int(most), kind)
    assert all(len(file) + len(text) <= 1024 * 1024 for file, text in peers.files.items())
    with pytest.raises(Invalid):
        gang_of(name, int(most) + 100, kind)


def test_a_file_has_the_same_limit_however_it_comes() -> None:
    expressions = [{"key": "rack", "operator": "In", "values": [f"{'v' * 60}{n}" for n in range(60)]}] * 32
    affinity = {"required": [expressions] * 4}
    with pytest.raises(TooLarge) as caught:
        parse_job(job(placement={"node_affinity": affinity}))
    assert caught.value.numbers == {"limit_bytes": FILE_BYTES_MAX}
