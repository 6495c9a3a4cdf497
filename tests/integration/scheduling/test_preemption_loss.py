"""The work that preemption discards is measured, and reaches the engine."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from clusters.models import Cell
from foundation.core import clock
from scheduling.models import Allocation, Attempt, Job
from scheduling.services.preemption_loss import LOSS_WINDOW, measure_preemption_loss
from scheduling.snapshots import cell_snapshot
from scheduling.snapshots.snapshot_cache import CachedCell
from tests.builders import jobs
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db

NOW = "2026-11-02T08:00:00Z"
HOURS_OF_16_GPUS = 16 * LOSS_WINDOW / timedelta(hours=1)


def lose(here: World, cards: int, hours: float, *, ago: timedelta = timedelta(0), **facts: Any) -> None:
    """An attempt of one task with so many GPUs that ran for some hours and ended some time ago."""
    fields = {"checkpoint_interval_s": facts.pop("checkpoint_s", None)}
    job = jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=cards)])
    Job.unscoped.filter(pk=job.pk).update(**fields)
    attempt = jobs.allocate(Job.unscoped.get(pk=job.pk), here.nodes[0])
    ended = clock.now() - ago
    started = {"started_at": ended - timedelta(hours=hours)} if facts.pop("started", True) else {}
    end = {"ended_at": ended, "end_reason": "RECLAIM_NOMINAL", **started, **facts}
    Attempt.unscoped.filter(pk=attempt.pk).update(**end)
    Allocation.unscoped.filter(attempt=attempt).update(charge={"gpu.cards": cards, "gpu.cores": 100 * cards})


def measured(here: World) -> int:
    measure_preemption_loss(now=clock.now())
    return Cell.unscoped.get(pk=here.cell.pk).lost_ppm


@pytest.mark.parametrize(
    ("facts", "gpu_hours"),
    [
        ({}, 20),
        ({"end_reason": "CONSOLIDATION"}, 20),
        ({"checkpoint_s": 3 * 3600}, 8),
        ({"end_reason": "USER"}, 0),
        ({"ago": LOSS_WINDOW + timedelta(seconds=1)}, 0),
        ({"started": False}, 0),
    ],
)
def test_work_that_preempted_jobs_do_again_is_counted_against_the_time_of_all_gpus(
    facts: dict[str, Any], gpu_hours: int
) -> None:
    with time_machine.travel(NOW, tick=False):
        here = world()
        lose(here, 4, 5, **facts)
        assert measured(here) == int(gpu_hours / HOURS_OF_16_GPUS * 1_000_000)


def test_both_snapshots_follow_what_was_lost() -> None:
    with time_machine.travel(NOW, tick=False):
        here = world()
        kept = CachedCell(here.cell.pk)
        assert kept.refresh_snapshot().snapshot.lost_ppm == 0
        Cell.unscoped.filter(pk=here.cell.pk).update(lost_ppm=4_321)
        assert kept.refresh_snapshot().snapshot.lost_ppm == 4_321
        assert cell_snapshot(here.cell.pk).snapshot.lost_ppm == 4_321
