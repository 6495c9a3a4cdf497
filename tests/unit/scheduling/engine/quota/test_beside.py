"""A non-preemptible job and what its queue's preemptible jobs use."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine import Mode, assign
from scheduling.engine.model import Extended, Instant, Job, Request, Role
from tests.unit.scheduling.engine.preemption.worlds import CARDS, cohort, running

ONE_CARD = Request(charged=(Extended(CARDS.resource, 1),))


@pytest.mark.parametrize(
    ("beside", "fixed", "mode"),
    [
        (False, 0, Mode.NO_CANDIDATES),
        (True, 0, Mode.FIT),
        (True, 1, Mode.FIT),
        (True, 2, Mode.NO_CANDIDATES),
    ],
)
def test_only_its_like_counts_against_the_nominal(beside: bool, fixed: int, mode: Mode) -> None:
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
    found = assign(snapshot, queue, waiting, oracle=None, fair=False, beside_preemptible=beside)
    assert found.mode is mode
    if mode is not Mode.FIT:
        assert found.refusal is not None
        assert found.refusal.numbers["available"] == 0
