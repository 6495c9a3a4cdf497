"""Whether a slice still fits a card, by the annotations and requests of the pods on its node."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusters.backends.base import DeviceGrant
from clusters.backends.kubernetes.nodes import shares
from clusters.gpu import hami

Json = dict[str, Any]
CARDS = ("GPU-a", "GPU-b")
NODE = {
    "metadata": {
        "name": "n1",
        "annotations": {
            hami.REGISTER: json.dumps(
                [
                    {"id": uuid, "count": 10, "devmem": 40_960, "devcore": 100, "health": True}
                    for uuid in CARDS
                ]
            )
        },
    }
}
PART = DeviceGrant("GPU-a", 50, 20_480)


class Listed:
    """An API that knows one node and the pods on it."""

    def __init__(self, *on_node: Json) -> None:
        self._pods = list(on_node)

    def get(self, path: str) -> Json:
        return NODE

    def list_objects(self, path: str, **query: str) -> tuple[list[Json], str]:
        return self._pods, "1"


def pod(annotation: str, **limits: str) -> Json:
    amounts = {f"nvidia.com/{name}": amount for name, amount in limits.items()}
    return {
        "metadata": {
            "namespace": "theirs",
            "name": "p",
            "annotations": {hami.ALLOCATED: annotation},
        },
        "spec": {"containers": [{"resources": {"limits": amounts}}]},
        "status": {"phase": "Running"},
    }


def check(*on_node: Json, part: DeviceGrant = PART) -> None:
    ours = {"metadata": {"namespace": "team", "name": "ours"}, "spec": {"nodeName": "n1"}}
    shares.check_room(Listed(*on_node), ours, [part])  # type: ignore[arg-type]


def test_what_a_pod_holds_is_not_given_out_again() -> None:
    with pytest.raises(shares.NoRoom, match="40 % and 30960 MiB left"):
        check(pod("GPU-a,NVIDIA,10000,60:;", gpu="1", gpumem="10k", gpucores="60"))


UNREADABLE = {
    "garbage": "{]",
    "a field missing": "GPU-a,NVIDIA",
    "a negative amount": "GPU-a,NVIDIA,-40960,-100:;",
    "a number without end": f"GPU-a,NVIDIA,{'9' * 5000},1:;",
    "a huge text": "GPU-a,NVIDIA,1,1:" * 12_000,
    "every card of the node": "GPU-a,NVIDIA,40960,100:GPU-b,NVIDIA,40960,100:;",
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_an_annotation_that_cannot_be_read_takes_what_the_pod_asks_for_and_no_more(text: str) -> None:
    stranger = pod(text, gpu="1")
    check(stranger)  # the node has another card, which counts as the first pod's
    with pytest.raises(shares.NoRoom):
        check(stranger, stranger)  # two such pods hold both cards
    small = pod(text, gpu="1", gpumem="1k", gpucores="10")
    check(small, small, small)
    check(*[small] * 10)
    with pytest.raises(shares.NoRoom):
        check(*[small] * 20)


@pytest.mark.parametrize(
    "text", [*UNREADABLE.values(), "GPU-a,NVIDIA,40960,100:;"], ids=[*UNREADABLE, "plain"]
)
def test_a_pod_that_asks_for_no_card_holds_none(text: str) -> None:
    check(pod(text))
    check(pod(text, gpu="0"))
