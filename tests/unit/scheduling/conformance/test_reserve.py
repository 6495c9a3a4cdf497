"""The quota that is reserved for a pending job that may not preempt."""

from __future__ import annotations

import pytest

from scheduling.conformance.kueue.scheduler.reserve import reserve_quota, to_reserve
from scheduling.engine.actions.admission.nominated_job import NominatedJob
from scheduling.engine.model import Charge, FlavorResource, PreemptionPolicy, PreemptOthers, Quota, QuotaNode
from scheduling.engine.quota.assignment import Assignment, AssignmentMode, FlavorChoice, RoleAssignment
from scheduling.engine.state.snapshot import Snapshot
from tests.unit.scheduling.engine.builders import flavor, job, queue

CARDS = FlavorResource("a100", "gpu.cards")


def snapshot(*, nominal: int, used: int, limit: int | None) -> Snapshot:
    quota = Quota(flavor="a100", resource="gpu.cards", own_nominal=nominal, borrowing_limit=limit)
    return Snapshot(
        flavors=[flavor()],
        quota_nodes=[
            QuotaNode(id="root"),
            QuotaNode(id="a", parent="root", quotas=(quota,), usage=(Charge(*CARDS, used),)),
        ],
        queues=[queue("a")],
    )


def entry(asked: int, *, level: int, reclaim: PreemptOthers = PreemptOthers.NEVER) -> NominatedJob:
    choice = FlavorChoice("a100", AssignmentMode.PREEMPT, level)
    part = RoleAssignment(role="worker", count=1, choices={"gpu.cards": choice}, usage={CARDS: asked})
    return NominatedJob(
        job=job("waiting"),
        queue=queue("a", preemption=PreemptionPolicy(reclaim=reclaim)),
        assignment=Assignment(roles=(part,), usage={CARDS: asked}),
    )


@pytest.mark.parametrize(
    ("asked", "level", "used", "limit", "kept"),
    [
        (4, 0, 2, None, 4),  # inside the nominal of 10
        (9, 0, 2, None, 8),  # no more than is left of it
        (4, 0, 12, None, 0),  # nothing is left
        (9, 1, 2, None, 9),  # a borrower without a limit: all of it
        (9, 1, 8, 3, 5),  # up to nominal and limit
        (2, 1, 8, 3, 2),
        (2, 1, 14, 3, 0),
    ],
)
def test_how_much(asked: int, level: int, used: int, limit: int | None, kept: int) -> None:
    world = snapshot(nominal=10, used=used, limit=limit)
    assert to_reserve(world.quota, entry(asked, level=level)) == ({CARDS: kept} if kept else {})


@pytest.mark.parametrize(
    ("reclaim", "prioritised", "preempting", "kept"),
    [
        (PreemptOthers.NEVER, False, False, 4),
        (PreemptOthers.LOWER_PRIORITY, False, False, 4),
        (PreemptOthers.ANY, False, False, 0),
        (PreemptOthers.ANY, True, False, 0),
        (PreemptOthers.ANY, True, True, 4),
    ],
)
def test_who_can_take_it_back_needs_nothing_kept(
    reclaim: PreemptOthers, prioritised: bool, preempting: bool, kept: int
) -> None:
    world = snapshot(nominal=10, used=0, limit=None)
    waiting = entry(4, level=0, reclaim=reclaim)
    if preempting:
        waiting = NominatedJob(
            job=job("waiting", preempting=True), queue=waiting.queue, assignment=waiting.assignment
        )
    with world.statement():
        reserve_quota(world, waiting, {}, prioritised=prioritised)
        assert world.quota.usage("a", CARDS) == kept
    assert world.quota.usage("a", CARDS) == 0
