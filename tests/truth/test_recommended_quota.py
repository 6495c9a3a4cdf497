"""The sentence of a recommendation of more quota is true in random cells: it is compared with what the job
does once the quota is there and all other jobs wait as before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import pytest
from django.utils.html import strip_tags

from frontend.texts.recommendations import find_recommendations
from scheduling.engine import Snapshot
from scheduling.engine.model import (
    DecisionKind,
    EvictRule,
    Help,
    HelpCode,
    Instant,
    JobOutcome,
    JobState,
)
from scheduling.engine_input.config import engine_config
from scheduling.services.jobs.preview_trial import HelpTrial
from scheduling.snapshots import CellSnapshot
from tests.truth.offers import raise_quota
from tests.truth.settle import Run, Unsettled, run_of
from tests.truth.worlds import KINDS, world_of

SEEDS = int(os.environ.get("ALLOTMENT_RECOMMENDED_QUOTA_WORLDS", "7"))
_WITH_RELEASE = ("calm", "large")
"""The kinds of whose first worlds at least one has a job that preempts or moves others after the request."""
_RECLAIMING = (EvictRule.RECLAIM_NOMINAL, EvictRule.RECLAIM_WHILE_BORROWING, EvictRule.FAIR_SHARE)


@dataclass(frozen=True)
class Afterwards:
    """What the first cycle with more quota decided for the job: whether it starts, and the rules by which it
    preempts jobs, by job; and the jobs that it moves to other nodes."""

    starts: bool
    preempts: dict[str, EvictRule | None]
    moves: set[str]

    def contradictions(self, sentence: str, *, tried: bool) -> Iterator[str]:
        """Yield each part of a sentence that is false."""
        waits = "job still waits afterwards:" in sentence
        if "The job still waits afterwards:" in sentence and (self.starts or self.preempts or self.moves):
            yield "the job starts, or preempts"
        if "Without preemption" in sentence and tried:
            yield "tried, but not told"
        if "by preempting" in sentence or "by moving" in sentence:
            if self.starts or not self._counts(sentence):
                yield "other jobs are preempted or moved"
            elif "that borrow" in sentence and not all(r in _RECLAIMING for r in self.preempts.values()):
                yield "not all of the preempted jobs borrow"
        elif tried and not waits and not self.starts:
            yield "the job doesn't start"

    def _counts(self, sentence: str) -> bool:
        """Return whether a sentence names how many jobs are preempted and moved."""
        preempts, moves = len(self.preempts), len(self.moves)
        if preempts and moves:
            return f"preempting jobs ({preempts}) and moving jobs ({moves})" in sentence
        verb = "preempting" if preempts else "moving"
        return f"by {verb} jobs" in sentence and f"(jobs: {preempts or moves})" in sentence


def copied(run: Run) -> Snapshot:
    """Return the cell as the last cycle left it, with all its jobs."""
    known = run.snapshot
    return Snapshot(
        nodes=known.export_nodes(),
        flavors=known.flavors.values(),
        quota_nodes=known.export_quota_nodes(),
        queues=known.queues.values(),
        jobs=known.jobs.values(),
        allocations=known.allocations.values(),
        usage=known.usage.values(),
        claims=known.claims.values(),
        lost_ppm=known.lost_ppm,
    )


def tried(run: Run, outcome: JobOutcome) -> list[Help]:
    """Return the recommendations as a check of the pending job finds them."""
    job = run.snapshot.jobs[outcome.job]

    def build() -> CellSnapshot:
        return CellSnapshot(copied(run), {}, {}, {})

    return HelpTrial(build, engine_config(), Instant(run.now), job, copy=job).try_all(outcome.help)


def approve(run: Run, outcome: JobOutcome) -> Afterwards:
    """Raise the quota as recommended, and return what the next cycle does for the job."""
    after = copy(run)
    after.snapshot = copied(run)
    for each in outcome.help:
        if each.code is HelpCode.RAISE_QUOTA:
            raise_quota(after, run.cell(), outcome, each)
    decisions = [one for one in after.cycle().decisions if one.beneficiary == outcome.job]
    return Afterwards(
        after.snapshot.jobs[outcome.job].state is JobState.LIVE,
        {one.job: one.rule for one in decisions if one.kind in (DecisionKind.EVICT, DecisionKind.SHRINK)},
        {one.job for one in decisions if one.kind is DecisionKind.MIGRATE},
    )


def sentences_of(helps: Any) -> list[str]:
    items = [{"code": each.code.value, "numbers": dict(each.numbers)} for each in helps]
    return [strip_tags(one.sentence) for one in find_recommendations(items) if one.code == "RAISE_QUOTA"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_job_does_with_more_quota_is_what_its_recommendation_says(kind: str) -> None:
    judged = released = 0
    for seed in range(SEEDS):
        try:
            run = run_of(world_of(seed, kind))
        except Unsettled:
            continue
        for outcome in run.waiting():
            if not any(each.code is HelpCode.RAISE_QUOTA for each in outcome.help):
                continue
            after = approve(run, outcome)
            for helps, was_tried in ((outcome.help, False), (tried(run, outcome), True)):
                for sentence in sentences_of(helps):
                    judged += 1
                    released += "by preempting" in sentence or "by moving" in sentence
                    false = list(after.contradictions(sentence, tried=was_tried))
                    assert not false, (kind, seed, outcome.job, sentence, after, false)
    assert judged and (released or kind not in _WITH_RELEASE)
