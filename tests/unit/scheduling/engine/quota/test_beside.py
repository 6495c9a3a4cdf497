"""A non-preemptible job and what its queue's preemptible jobs use."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine import AssignmentMode, assign_flavors
from scheduling.engine.model import Extended, Instant, Job, Request, Role
from tests.unit.scheduling.engine.preemption.worlds import CARDS, cohort, running

ONE_CARD = Request(charged=(Extended(CARDS.resource, 1),))


@pytest.mark.parametrize(
    ("beside", "fixed", "mode"),
    [
        (False, 0, AssignmentMode.NO_CANDIDATES),
        (True, 0, AssignmentMode.FIT),
        (True, 1, AssignmentMode.FIT),
        (True, 2, AssignmentMode.NO_CANDIDATES),
    ],
)
def test_only_its_like_counts_against_the_nominal(beside: bool, fixed: int, mode: AssignmentMode) -> None:
    jobs = [running("train", "a", 2)]
    if fixed:
        jobs.append(running("build", "a", fixed, preemptible=False))
    snapshot = cohort({"a": 2, "b": 4}, jobs)
    queue = replace(snapshot.queues["a"], flavors=(CARDS.flavor,))
    waiting = Job(
        id="new",
        queue="a",
        submitted_at=Instant(0),
        preemptible=False,
        roles=(Role(name="w", replicas=1, request=ONE_CARD),),
    )
    found = assign_flavors(
        snapshot, queue, waiting, oracle=None, fair=False, nominal_counts_non_preemptible_only=beside
    )
    assert found.mode is mode
    if mode is not AssignmentMode.FIT:
        assert found.refusal is not None
        assert found.refusal.numbers["available"] == 0
