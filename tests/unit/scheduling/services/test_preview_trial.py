"""A tried recommendation counts the jobs that are preempted apart from those that are moved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.utils.html import strip_tags

from frontend.texts.reasons import help_sentence
from scheduling.engine.model import (
    CycleResult,
    Decision,
    DecisionKind,
    EvictRule,
    Instant,
    JobOutcome,
    Reason,
)
from scheduling.services.jobs import preview_trial
from scheduling.services.jobs.preview_trial import HelpTrial

RECLAIM, PRIORITY, MOVE = EvictRule.RECLAIM_NOMINAL, EvictRule.IN_QUEUE_PRIORITY, EvictRule.CONSOLIDATION


@pytest.mark.parametrize(
    ("decided", "numbers", "sentence"),
    [
        ([("evict", RECLAIM), ("shrink", RECLAIM)], {"preempts": 2, "preempts_borrowers": 2},
         "by preempting jobs that borrow (jobs: 2)."),
        ([("evict", RECLAIM), ("evict", PRIORITY)], {"preempts": 2}, "by preempting jobs (jobs: 2)."),
        ([("migrate", MOVE)] * 3, {"moves": 3}, "by moving jobs to other nodes (jobs: 3)."),
        ([("evict", RECLAIM), ("migrate", MOVE)], {"preempts": 1, "moves": 1},
         "by preempting jobs (1) and moving jobs (1)."),
    ],
)  # fmt: skip
def test_the_outcome_names_what_becomes_of_others(
    decided: list[tuple[str, EvictRule]],
    numbers: dict[str, int],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decisions = [
        Decision(DecisionKind(kind), f"other-{place}", rule=rule, beneficiary="asked")
        for place, (kind, rule) in enumerate(decided)
    ]
    # Neither the decisions for another job nor those that give the job its own resources count.
    decisions += [
        Decision(DecisionKind.EVICT, "other", rule=RECLAIM, beneficiary="another"),
        Decision(DecisionKind.PARK, "asked", rule=MOVE, beneficiary="asked"),
    ]
    outcome = JobOutcome.waiting("asked", Reason.WAITING_FOR_PREEMPTED, {})
    result = CycleResult(decisions=tuple(decisions), outcomes=(outcome,))
    monkeypatch.setattr(preview_trial.engine, "run_cycle", lambda *_: result)
    asked: Any = SimpleNamespace(id="asked")
    monkeypatch.setattr(HelpTrial, "apply_helps", lambda *_: (SimpleNamespace(snapshot=None), asked))
    build: Any = None
    trial = HelpTrial(build, build, Instant(0.0), asked, asked)

    found = trial._after([])

    assert found == numbers
    assert strip_tags(help_sentence("RAISE_QUOTA", {**found, "tried": 1})).endswith(sentence)
