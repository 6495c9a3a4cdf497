"""How large a job file and the pods made of it may be, by whichever field they grow."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusters.backends.base import Gang, TaskRef, TaskSpec
from clusters.backends.kubernetes.pods import manifest
from foundation.errors import Invalid, TooLarge
from scheduling.spec import JobSpec, parse_job
from scheduling.spec.size import FILE_BYTES_MAX, POD_BYTES_MAX

FAT = ["x" * 4000] * 20
PROBE = {"command": ["y" * 4000] * 20}
SOURCES = [{"secret": "s" * 250, "prefix": f"A{n}_"} for n in range(16)]


def job(role: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": "one", "roles": [{"image": "img", **(role or {})}], **more}


def pod_of(spec: JobSpec) -> int:
    """The size of the pod that Kubernetes is asked for, in bytes."""
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
        gang=Gang("one-1", 1, labels),
        options={
            **spec.runtime,
            **role.container,
            "volumes": spec.volumes,
            "tolerations": spec.placement.get("tolerations", ()),
        },
    )
    return len(json.dumps(manifest(task, "0" * 32)).encode())


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
    assert "at most 64" in caught.value.errors[0].message


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


def test_a_file_has_the_same_limit_however_it_comes() -> None:
    expressions = [{"key": "rack", "operator": "In", "values": [f"{'v' * 60}{n}" for n in range(60)]}] * 32
    affinity = {"required": [expressions] * 4}
    with pytest.raises(TooLarge) as caught:
        parse_job(job(placement={"node_affinity": affinity}))
    assert caught.value.numbers == {"limit_bytes": FILE_BYTES_MAX}
