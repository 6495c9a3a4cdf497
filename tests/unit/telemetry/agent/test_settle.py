"""The agent's action for one pod, whatever came before and wherever it was interrupted."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clusters.gpu.live_memory import (
    ANSWER,
    WANTED,
    AnswerState,
    LiveMemoryFormatError,
    MemoryAnswer,
    WantedMemory,
    in_effect,
    parse_answer,
    parse_wanted,
)
from telemetry.agent.api import Changed
from telemetry.agent.resizing.settle import settle_pod
from tests.builders.regions import limits_mib, put_region, region

POD = "4a1f6c1e-7f5b-4a51-9f0e-6d1b1d8f0c55"
CARD = "GPU-a"


@dataclass
class Pods:
    """The API: what is there, and what was written. `before_write` is done before the next write."""

    pod: dict[str, Any]
    written: list[MemoryAnswer] = field(default_factory=list)
    before_write: list[Any] = field(default_factory=list)

    def annotate_pod(self, pod: Mapping[str, Any], annotations: Mapping[str, str]) -> Mapping[str, Any]:
        while self.before_write:
            self.before_write.pop(0)()
        if pod["metadata"]["resourceVersion"] != self.pod["metadata"]["resourceVersion"]:
            raise Changed("the pod was changed")
        self.wants(**annotations)
        self.written.append(parse_answer(annotations[ANSWER]))
        return copy.deepcopy(self.pod)

    def wants(self, **annotations: str) -> None:
        metadata = self.pod["metadata"]
        metadata["annotations"].update(annotations)
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)

    def want(self, mib: int, token: str) -> None:
        self.wants(**{WANTED: WantedMemory(token, {CARD: mib}).to_annotation()})


@pytest.fixture
def pods() -> Pods:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
    return Pods(
        {
            "metadata": {
                "namespace": "team", "name": "a", "uid": POD, "resourceVersion": "1", "annotations": {},
            },
            "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
            "status": {"phase": "Running"},
        }
    )  # fmt: skip


def look(pods: Pods, root: Path) -> bool:
    return settle_pod(pods, root, copy.deepcopy(pods.pod))


def states(pods: Pods) -> list[str]:
    return [answer.state.value for answer in pods.written]


def test_a_wish_is_taken_carried_out_and_answered(pods: Pods, tmp_path: Path) -> None:
    file = put_region(tmp_path, POD, region({CARD: 3000}))
    pods.want(5000, "t1")
    assert look(pods, tmp_path)
    assert limits_mib(file) == [5000]
    assert states(pods) == ["taken", "applied"]
    assert in_effect(pods.pod, [CARD]) == {CARD: 5000}


def test_a_second_look_changes_nothing(pods: Pods, tmp_path: Path) -> None:
    file = put_region(tmp_path, POD, region({CARD: 3000}))
    pods.want(5000, "t1")
    look(pods, tmp_path)
    before = file.stat().st_mtime_ns
    assert look(pods, tmp_path)
    assert states(pods) == ["taken", "applied"]
    assert file.stat().st_mtime_ns == before


def test_a_container_that_starts_again_gets_it_back(pods: Pods, tmp_path: Path) -> None:
    put_region(tmp_path, POD, region({CARD: 3000}))
    pods.want(5000, "t1")
    look(pods, tmp_path)
    file = put_region(tmp_path, POD, region({CARD: 3000}))
    assert look(pods, tmp_path)
    assert limits_mib(file) == [5000]
    assert states(pods) == ["taken", "applied"]


def test_an_agent_that_died_after_taking_is_followed_by_one_that_goes_on(pods: Pods, tmp_path: Path) -> None:
    file = put_region(tmp_path, POD, region({CARD: 3000}))
    pods.want(5000, "t1")
    pods.wants(**{ANSWER: MemoryAnswer("t1", AnswerState.TAKEN, {CARD: 5000}).to_annotation()})
    assert in_effect(pods.pod, [CARD]) is None
    assert look(pods, tmp_path)
    assert limits_mib(file) == [5000]
    assert states(pods) == ["applied"]


def test_a_wish_taken_back_before_it_was_taken_is_never_carried_out(pods: Pods, tmp_path: Path) -> None:
    file = put_region(tmp_path, POD, region({CARD: 3000}))
    pods.want(5000, "t1")
    pods.before_write.append(lambda: pods.want(3000, "t2"))
    with pytest.raises(Changed):
        look(pods, tmp_path)
    assert limits_mib(file) == [3000]
    assert pods.written == []
    look(pods, tmp_path)
    assert limits_mib(file) == [3000]
    assert (states(pods), pods.written[-1].token) == (["taken", "applied"], "t2")


def test_nothing_is_shrunk_below_what_the_processes_use(pods: Pods, tmp_path: Path) -> None:
    file = put_region(tmp_path, POD, region({CARD: 3000}, used_mib=[{CARD: 1500}, {CARD: 700}]))
    pods.want(2000, "t1")
    assert look(pods, tmp_path)
    (answer,) = pods.written
    assert (answer.state, answer.code) == (AnswerState.REFUSED, "BELOW_USE")
    assert "2200 MiB" in answer.message
    assert limits_mib(file) == [3000]
    assert in_effect(pods.pod, [CARD]) == {CARD: 3000}
    assert look(pods, tmp_path)
    assert len(pods.written) == 1


def test_a_container_that_has_not_used_its_card_is_refused_with_words(pods: Pods, tmp_path: Path) -> None:
    pods.want(5000, "t1")
    assert look(pods, tmp_path)
    (answer,) = pods.written
    assert (answer.state, answer.code) == (AnswerState.REFUSED, "NOT_IN_USE")


def test_a_file_that_is_being_written_is_looked_at_again(pods: Pods, tmp_path: Path) -> None:
    put_region(tmp_path, POD, b"")
    pods.want(5000, "t1")
    assert not look(pods, tmp_path)
    assert pods.written == []
    file = put_region(tmp_path, POD, region({CARD: 3000}))
    assert look(pods, tmp_path)
    assert limits_mib(file) == [5000]


@pytest.mark.parametrize("data", [region({CARD: 3000}, major=2), region({"GPU-x": 3000})])
def test_a_file_that_is_not_known_is_refused_and_left(pods: Pods, tmp_path: Path, data: bytearray) -> None:
    file = put_region(tmp_path, POD, data)
    pods.want(5000, "t1")
    assert look(pods, tmp_path)
    assert [(answer.state.value, answer.code) for answer in pods.written] == [("refused", "UNKNOWN_LAYOUT")]
    assert file.read_bytes() == data


def test_what_was_taken_is_not_refused_any_more(pods: Pods, tmp_path: Path) -> None:
    """Another of its files might have been written already."""
    file = put_region(tmp_path, POD, region({CARD: 3000}))
    pods.want(5000, "t1")
    pods.before_write.append(lambda: file.write_bytes(region({CARD: 3000}, major=2)))
    assert not look(pods, tmp_path)
    assert states(pods) == ["taken"]
    assert in_effect(pods.pod, [CARD]) is None


def test_a_wish_refused_after_an_unfinished_one_reports_the_most_that_may_be(
    pods: Pods, tmp_path: Path
) -> None:
    put_region(tmp_path, POD, region({CARD: 5000}, used_mib=[{CARD: 4000}]))
    pods.wants(**{ANSWER: MemoryAnswer("t1", AnswerState.TAKEN, {CARD: 5000}).to_annotation()})
    pods.want(3000, "t2")
    assert look(pods, tmp_path)
    assert pods.written[-1].code == "BELOW_USE"
    assert in_effect(pods.pod, [CARD]) == {CARD: 5000}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_left_alone(pods: Pods, tmp_path: Path, phase: str) -> None:
    put_region(tmp_path, POD, region({CARD: 3000}))
    pods.pod["status"]["phase"] = phase
    pods.want(5000, "t1")
    assert look(pods, tmp_path)
    assert pods.written == []


@pytest.mark.parametrize(
    "text",
    [
        "x", "[]", "{}", '{"token":"t"}', '{"token":"t","memory_mib":{}}',
        '{"token":"","memory_mib":{"a":1}}',
        '{"token":"t","memory_mib":{"a":0}}', '{"token":"t","memory_mib":{"a":true}}',
        '{"token":"t","memory_mib":{"a":1.5}}', '{"token":"t","memory_mib":{"a":"1"}}',
    ],
)  # fmt: skip
def test_a_wish_that_cannot_be_read_is_none(pods: Pods, tmp_path: Path, text: str) -> None:
    with pytest.raises(LiveMemoryFormatError):
        parse_wanted(text)
    pods.wants(**{WANTED: text})
    assert look(pods, tmp_path)
    assert pods.written == []
