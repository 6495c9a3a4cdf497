"""The workload mix that placement policies learn from is stored with the cell, and reaches every snapshot."""

from __future__ import annotations

import pytest

from clusters.models import Cell
from scheduling import engine
from scheduling.engine import model as em
from scheduling.services.cycle import cycle_run
from scheduling.snapshots import cell_snapshot
from scheduling.snapshots.snapshot_cache import CachedCell
from tests.builders import jobs
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


def stored(here: World) -> em.TaskWorkload:
    return engine.decode(em.TaskWorkload, Cell.unscoped.get(pk=here.cell.pk).workload)


def test_a_cycle_stores_the_mix_of_its_jobs_until_they_become_different() -> None:
    here = world()
    for _ in range(3):
        jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=1)])
    cycle_run(cell_id=here.cell.pk)
    ((shape, share),) = stored(here).counts
    assert (shape.cards, share) == (1, 1024)
    jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=2)])
    cycle_run(cell_id=here.cell.pk)
    assert [(shape.cards, share) for shape, share in stored(here).counts] == [(1, 768), (2, 256)]


def test_snapshots_that_are_kept_and_built_have_the_stored_mix() -> None:
    here = world()
    kept = CachedCell(here.cell.pk)
    assert kept.refresh_snapshot().snapshot.workload == em.TaskWorkload()
    mix = em.TaskWorkload(
        ((em.WorkloadShape(500, 100, 2, "A100|H100"), 1_000), (em.WorkloadShape(1, 0, 0), 24))
    )
    Cell.unscoped.filter(pk=here.cell.pk).update(workload=engine.encode(mix))
    assert kept.refresh_snapshot().snapshot.workload == mix
    assert cell_snapshot(here.cell.pk).snapshot.workload == mix
