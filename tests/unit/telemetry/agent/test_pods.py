"""Telemetry reads of a pod only the grants as the platform wrote them."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.gpu.hami import ALLOCATED, CardShare
from telemetry.agent.pods import PodTable, view_pod

CID = "ab" * 32


def pod(allocated: str | None = "GPU-a,NVIDIA,3000,30:;", **changes: Any) -> dict[str, Any]:
    annotations = {} if allocated is None else {ALLOCATED: allocated}
    made = {
        "metadata": {"uid": "u1", "namespace": "team", "name": "job-0", "annotations": annotations},
        "spec": {"containers": [{"name": "main"}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {
                    "name": "main", "containerID": f"containerd://{CID}",
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }
            ],
        },
    }  # fmt: skip
    return {**made, **changes}


def test_a_pod_is_read() -> None:
    view = view_pod(pod())
    assert view is not None
    assert (view.uid, view.namespace, view.name) == ("u1", "team", "job-0")
    assert view.shares == {"main": {"GPU-a": CardShare("GPU-a", 3000, 30)}}
    assert view.containers == {CID: "main"}
    assert view.started_at == {"main": 1767225600.0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GPU-a,NVIDIA,1,1:;", {"main": ["GPU-a"]}),
        ("GPU-a,NVIDIA,1,1:GPU-b,NVIDIA,1,1:;", {"main": ["GPU-a", "GPU-b"]}),
        (";GPU-b,NVIDIA,1,1:;", {"side": ["GPU-b"]}),
        (";;GPU-b,NVIDIA,1,1:;", {"side": ["GPU-b"]}),
        ("GPU-i,NVIDIA,1,1:;GPU-a,NVIDIA,1,1:;;", {"first": ["GPU-i"], "main": ["GPU-a"]}),
        ("nonsense", {}),
        ("", {}),
    ],
)
def test_a_share_belongs_to_the_container_at_its_place(text: str, expected: dict[str, list[str]]) -> None:
    spec = {"initContainers": [{"name": "first"}], "containers": [{"name": "main"}, {"name": "side"}]}
    if text.count(";") < 3:
        spec.pop("initContainers")
    view = view_pod(pod(text, spec=spec))
    assert view is not None
    assert {name: list(shares) for name, shares in view.shares.items()} == expected


def test_pods_that_have_ended_are_forgotten() -> None:
    table = PodTable()
    table.replace_pods([pod()])
    assert list(table.pods) == ["u1"]
    table.put_pod(pod(status={"phase": "Succeeded"}))
    assert not table.pods
    table.put_pod(pod())
    table.replace_pods([])
    assert not table.pods
