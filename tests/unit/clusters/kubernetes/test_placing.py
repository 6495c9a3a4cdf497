"""Creations that are not answered take no time from others."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from clusters.backends.base import (
    PUT_OFF,
    UNKNOWN,
    UNREACHABLE,
    GangSpec,
    OutcomeKind,
    PodOutcome,
    TaskRef,
    TaskSpec,
)
from clusters.backends.kubernetes.lifecycle import placing


class Calls:
    """An API that makes no call; it counts the requested pods, by workspace."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: dict[str, PodOutcome]) -> None:
        self.asked: Counter[str] = Counter()
        self.subjects: set[str] = set()

        def ensure(api: Any, spec: TaskSpec, owner: Any) -> PodOutcome:
            self.asked[spec.ref.namespace] += 1
            return answers.get(spec.ref.namespace, PodOutcome.of_success("uid"))

        monkeypatch.setattr(placing, "_ensure", ensure)
        monkeypatch.setattr(placing, "_owner", lambda *_: {})
        monkeypatch.setattr(placing, "namespace_found", lambda *_: {})
        monkeypatch.setattr("clusters.backends.kubernetes.client.workers.AT_ONCE", 1)

    def for_subject(self, subject: str) -> Calls:
        self.subjects.add(subject)
        return self


def pods(namespace: str, gangs: int, each: int) -> list[TaskSpec]:
    return [
        TaskSpec(
            ref=TaskRef(namespace, f"g{gang}-{index}"),
            node="n",
            cpu_millicores=1,
            memory_mib=1,
            devices=(),
            image="x",
            command=(),
            environment={},
            labels={},
            workspace="w",
            gang=GangSpec(f"g{gang}", each, {}),
        )
        for gang in range(gangs)
        for index in range(each)
    ]


LOST = PodOutcome.of_unknown("500")


@pytest.mark.parametrize(("gangs", "each", "most"), [(1, 100, 3), (100, 1, 4), (10, 10, 12)])
def test_few_are_asked_for_in_vain_of_one_workspace_and_all_of_others(
    monkeypatch: pytest.MonkeyPatch, gangs: int, each: int, most: int
) -> None:
    api = Calls(monkeypatch, {"bad": LOST})
    specs = [*pods("bad", gangs, each), *pods("good", 20, 2)]
    outcomes = placing.ensure_many(api, specs)  # type: ignore[arg-type]
    # Calls that run in parallel when the limit is reached are completed all the same.
    assert api.asked["bad"] <= most + 16
    assert api.asked["good"] == 40
    assert [outcome.kind for outcome in outcomes[-40:]] == [OutcomeKind.DONE] * 40
    assert all(outcome.kind is OutcomeKind.UNKNOWN for outcome in outcomes[:-40])
    # Only requested pods are reported as unanswered.
    codes = Counter(outcome.code for outcome in outcomes[:-40])
    assert codes == {UNKNOWN: api.asked["bad"], PUT_OFF: gangs * each - api.asked["bad"]}
    assert api.subjects == {"bad", "good"}


def test_a_cluster_that_does_not_answer_at_all_is_not_held_against_a_workspace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = PodOutcome.of_unknown("no connection", UNREACHABLE)
    api = Calls(monkeypatch, {"bad": silent})
    outcomes = placing.ensure_many(api, pods("bad", 1, 100))  # type: ignore[arg-type]
    assert {outcome.code for outcome in outcomes} == {UNREACHABLE}
