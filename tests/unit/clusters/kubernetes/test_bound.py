"""The amounts that a pod holds, read from its object."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.backends.base import DeviceGrant
from clusters.backends.kubernetes.nodes import bound

Json = dict[str, Any]


def asks(amounts: Json | None = None, *, limits: Json | None = None, **fields: Any) -> Json:
    return {"resources": {"requests": amounts or {}, "limits": limits or {}}, **fields}


def pod(*containers: Json, metadata: Json | None = None, **spec: Any) -> Json:
    named = {"uid": "u", "namespace": "theirs", "name": "p", **(metadata or {})}
    return {"metadata": named, "spec": {"nodeName": "n1", "containers": list(containers), **spec}}


@pytest.mark.parametrize(
    ("spec", "cpu", "memory"),
    [
        (pod(asks({"cpu": "500m", "memory": "1Gi"}), asks({"cpu": "1"})), 1500, 1024),
        (pod(asks(limits={"cpu": "2", "memory": "1Mi"})), 2000, 1),
        (pod(asks({"cpu": "1"}, limits={"cpu": "2"})), 1000, 0),
        (pod(asks({"cpu": "1"}), initContainers=[asks({"cpu": "3", "memory": "1"})]), 3000, 1),
        (pod(asks({"cpu": "1"}), initContainers=[asks({"cpu": "3"}, restartPolicy="Always")]), 4000, 0),
        # The second init container runs beside the sidecar that came before it.
        (
            pod(
                asks({"cpu": "1"}),
                initContainers=[asks({"cpu": "2"}, restartPolicy="Always"), asks({"cpu": "4"})],
            ),
            6000, 0,
        ),
        (pod(asks({"cpu": "1"}), overhead={"cpu": "250m", "memory": "120Mi"}), 1250, 120),
        (pod(asks({"cpu": "1", "memory": "1Gi"}), resources={"requests": {"cpu": "5"}}), 5000, 1024),
        (pod({}), 0, 0),
    ],
)  # fmt: skip
def test_requests_are_counted_as_the_scheduler_counts_them(spec: Json, cpu: int, memory: int) -> None:
    found = bound.bound_pod(spec)
    assert (found.cpu_millicores, found.memory_mib) == (cpu, memory)


@pytest.mark.parametrize(
    ("item", "cards", "shares"),
    [
        (pod(asks(limits={"nvidia.com/gpu": "2"})), {"": 2}, ()),
        (pod(asks(limits={"nvidia.com/mig-1g.5gb": "3"})), {"1g.5gb": 3}, ()),
        (
            pod(
                asks(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}),
                metadata={"annotations": {"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,3000,30:;"}},
            ),
            {}, (DeviceGrant("GPU-a", 30, 3000),),
        ),
        # What cannot be read is taken for whole cards.
        (
            pod(
                asks(limits={"nvidia.com/gpu": "1"}),
                metadata={"annotations": {"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA:;"}},
            ),
            {"": 1}, (),
        ),
        # More cards than were asked for are not its own.
        (
            pod(
                asks(limits={"nvidia.com/gpu": "1"}),
                metadata={"annotations": {"hami.io/vgpu-devices-allocated": "GPU-a,N,1,1:GPU-b,N,1,1:;"}},
            ),
            {"": 1}, (),
        ),
        # A pod that requests no card holds none, whatever its annotations say.
        (
            pod(
                asks({"cpu": "1"}),
                metadata={"annotations": {"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,40960,100:;"}},
            ),
            {}, (),
        ),
        (pod(asks({"cpu": "1"})), {}, ()),
    ],
)  # fmt: skip
def test_cards_are_a_number_or_known_by_uuid(item: Json, cards: Any, shares: Any) -> None:
    found = bound.bound_pod(item)
    assert (found.cards, found.shares) == (cards, shares)


@pytest.mark.parametrize(
    ("metadata", "owner", "standing"),
    [
        ({"ownerReferences": [{"kind": "DaemonSet", "name": "dcgm"}]}, "DaemonSet/dcgm", True),
        ({"ownerReferences": [{"kind": "ReplicaSet", "name": "web"}]}, "ReplicaSet/web", False),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, "", True),
        ({}, "", False),
    ],
)
def test_what_belongs_to_the_node_differs_from_what_may_end(
    metadata: Json, owner: str, standing: bool
) -> None:
    found = bound.bound_pod(pod(asks(), metadata=metadata))
    assert (found.owner, found.is_permanent) == (owner, standing)


@pytest.mark.parametrize(
    ("labels", "kept", "installation"),
    [
        ({"app.kubernetes.io/managed-by": "Helm", "app": "x"}, {}, ""),
        (
            {"app.kubernetes.io/managed-by": "allotment", "app": "x"},
            {"app.kubernetes.io/managed-by": "allotment"}, "",
        ),
        ({"allotment.io/installation": "i"}, {"allotment.io/installation": "i"}, "i"),
    ],
)  # fmt: skip
def test_only_the_platforms_own_labels_say_where_a_pod_comes_from(
    labels: Json, kept: Json, installation: str
) -> None:
    found = bound.bound_pod(pod(asks(), metadata={"labels": labels}))
    assert (found.labels, found.installation) == (kept, installation)


def test_a_pod_that_leaves_still_holds_what_it_held() -> None:
    left = {"deletionTimestamp": "2026-11-22T11:00:00Z"}
    found = bound.bound_pod(pod(asks(limits={"nvidia.com/gpu": "1"}), metadata=left))
    assert found.terminating
    assert found.cards == {"": 1}
