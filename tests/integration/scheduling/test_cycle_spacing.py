"""The time between two cycles of a cell: a long cycle leaves others more time than a short one."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine
from django.db import connection

from foundation.core import clock
from foundation.messaging.outbox import Topic, add_hint
from foundation.models import Hint
from scheduling.services import cycle
from tests.builders import clusters

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _cycle_spacing() -> None:
    """Here cycles keep their pauses."""


@pytest.mark.parametrize(
    ("gave", "took_s", "spacing_s"),
    [
        (True, None, 0.1),
        (True, 0.01, 0.1),
        (True, 0.1, 0.2),
        (True, 0.2, 0.4),
        (True, 2.0, 0.5),
        (False, 0.01, 0.5),
        (False, 0.15, 0.75),
        (False, 2.0, 1.0),
    ],
)
def test_the_next_cycle_leaves_others_the_time_of_the_last_and_more_when_that_was_in_vain(
    gave: bool, took_s: float | None, spacing_s: float
) -> None:
    cell = clusters.cell()
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        assert cycle.cycle_run(cell_id=cell.pk) is not None
        assert cycle._took_s.pop(cell.pk) > 0
        if took_s is not None:
            cycle._took_s[cell.pk] = took_s
        if gave:
            cycle._idle.remove(cell.pk)
        Hint.unscoped.all().delete()

        traveller.shift(spacing_s - 0.02)
        assert cycle.cycle_run(cell_id=cell.pk) is None
        again = Hint.unscoped.get(topic="cycle-put-off", key=str(cell.pk))
        assert (again.not_before - clock.now()).total_seconds() == pytest.approx(0.02, abs=1e-4)

        traveller.shift(0.021)
        assert cycle.cycle_run(cell_id=cell.pk) is not None


@pytest.mark.parametrize("back", [timedelta(seconds=1), timedelta(hours=1)])
def test_a_clock_that_was_set_back_does_not_keep_a_cell_from_its_cycles(back: timedelta) -> None:
    cell = clusters.cell()
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        assert cycle.cycle_run(cell_id=cell.pk) is not None
        traveller.shift(-back)

        assert cycle.cycle_run(cell_id=cell.pk) is not None


@pytest.mark.parametrize("gave", [False, True])
def test_released_quota_does_not_wait_where_writers_do_not_wait_for_each_other(gave: bool) -> None:
    cell = clusters.cell()
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        assert cycle.cycle_run(cell_id=cell.pk) is not None
        cycle._took_s[cell.pk] = 0.1
        if gave:
            cycle._idle.remove(cell.pk)
        traveller.shift(0.01)
        ran = cycle.cycle_run(cell_id=cell.pk, freed=True) is not None
        waits = {hint.topic: hint.not_before - clock.now() for hint in Hint.unscoped.all()}

    assert ran is (connection.vendor == "postgresql")
    assert waits == ({} if ran else {"freed-put-off": timedelta(seconds=0.19)})


def test_a_cycle_answers_all_who_asked_before_it() -> None:
    cell, other = clusters.cell(), clusters.cell("other")
    for asked in (cell, other):
        add_hint(Topic.CYCLE, asked.pk)
        add_hint(Topic.CYCLE, asked.pk, delay_s=5)
        add_hint(Topic.FREED, asked.pk)

    assert cycle.cycle_run(cell_id=cell.pk) is not None
    assert {key for (key,) in Hint.unscoped.values_list("key")} == {str(other.pk)}
