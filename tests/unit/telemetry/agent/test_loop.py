"""The agent continues, whatever the API answers, or if it does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.agent.api import Changed, Forgotten, Unavailable
from telemetry.agent.resizing.loop import LOOK_S, LOOK_SOON_S, Agent


class Ended(Exception):
    """The end of a script."""


class Script:
    """An API that answers with scripted lists, one after the other, and records the length of each watch."""

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
    """Collect the pods that are looked at; each pod's value decides the result."""
    seen: list[Any] = []

    def settle(api: Any, root: Path, pod: Any) -> bool:
        seen.append(pod)
        if pod == "changed":
            raise Changed("somebody was faster")
        return bool(pod != "owed")

    monkeypatch.setattr("telemetry.agent.resizing.loop.settle_pod", settle)
    return seen


def run(script: Any) -> list[float]:
    """Return the pauses of the agent until the script ends."""
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
    """An observer that records what it gets."""

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
