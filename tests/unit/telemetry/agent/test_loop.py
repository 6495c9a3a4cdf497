"""The agent goes on, whatever the API says or does not say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.agent.api import Changed, Forgotten, Unavailable
from telemetry.agent.resizing.loop import LOOK_S, LOOK_SOON_S, Agent


class Ended(Exception):
    """The test has seen enough."""


class Script:
    """An API that answers what it is told, list after list, and notes for how long it is watched."""

    def __init__(self, *lists: Any, watch: Any = ()) -> None:
        self._lists, self._watch, self.watched = list(lists), watch, []

    def list_pods(self, node: str) -> tuple[list[Any], str]:
        answer = self._lists.pop(0) if self._lists else Ended()
        if isinstance(answer, Exception):
            raise answer
        return answer, "7"

    def follow_pods(self, node: str, version: str, *, seconds: int) -> Iterator[Any]:
        self.watched.append((version, seconds))
        for item in self._watch:
            if isinstance(item, Exception):
                raise item
            yield item


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The pods that were looked at. What a pod is decides what comes of it."""
    seen: list[Any] = []

    def settle(api: Any, root: Path, pod: Any) -> bool:
        seen.append(pod)
        if pod == "changed":
            raise Changed("somebody was faster")
        return bool(pod != "owed")

    monkeypatch.setattr("telemetry.agent.resizing.loop.settle_pod", settle)
    return seen


def run(script: Any) -> list[float]:
    """The pauses that the agent made until the script was over."""
    pauses: list[float] = []
    with pytest.raises(Ended):
        Agent(script, "n1", Path("/nowhere")).run(pause=pauses.append)
    return pauses


def test_every_pod_is_looked_at_and_then_those_that_change(looked_at: list[Any]) -> None:
    script = Script(["a", "b"], watch=["b"])
    assert run(script) == []
    assert looked_at == ["a", "b", "b"]
    assert script.watched == [("7", LOOK_S)]


@pytest.mark.parametrize("pod", ["owed", "changed"])
def test_what_is_left_to_be_done_is_looked_at_soon(looked_at: list[Any], pod: str) -> None:
    script = Script([pod, "b"])
    run(script)
    assert looked_at == [pod, "b"]
    assert script.watched == [("7", LOOK_SOON_S)]


def test_silence_is_waited_for_longer_and_longer_and_never_for_ever(looked_at: list[Any]) -> None:
    down = [Unavailable("no answer")] * 8
    pauses = run(Script(*down, ["a"], Unavailable("again")))
    assert pauses[:3] == [1, 2, 4]
    assert pauses[7] == max(pauses) == 30
    assert pauses[8] == 1, "an answer begins anew"
    assert looked_at == ["a"]


def test_a_forgotten_version_means_a_new_list(looked_at: list[Any]) -> None:
    assert run(Script(["a"], ["a"], watch=[Forgotten("too old")])) == []
    assert looked_at == ["a", "a"]


class Seen:
    """An observer that notes what it is given."""

    def __init__(self) -> None:
        self.lists: list[Any] = []
        self.pods: list[Any] = []

    def replace_pods(self, pods: Any) -> None:
        self.lists.append(list(pods))

    def put_pod(self, pod: Any) -> None:
        self.pods.append(pod)


def test_telemetry_sees_every_pod_that_is_read(looked_at: list[Any]) -> None:
    seen = Seen()
    with pytest.raises(Ended):
        Agent(Script(["a", "b"], watch=["b"]), "n1", Path("/nowhere"), seen).run(pause=[].append)  # type: ignore[arg-type]
    assert (seen.lists, seen.pods) == ([["a", "b"]], ["b"])
