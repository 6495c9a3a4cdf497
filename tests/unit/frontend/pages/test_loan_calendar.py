"""The calendar of temporary quota: the transfers that a viewer sees, and the places of their bars."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.test import Client

from clusters.models import Flavor
from foundation.core.quantities import Resource
from frontend.pages.requests import labels, loan_calendar
from frontend.pages.requests.loan_calendar import describe_calendar
from quotas.models import Override, OverrideState
from quotas.selectors.changes.override import override_get
from tests.builders import clusters, tenancy
from tests.builders.world import World, world

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def lend(w: World, days: tuple[int, int], state: OverrideState, gpus: int) -> None:
    """Quota of team B that team A has between two days from now."""
    loan = Override.unscoped.create(
        cell=w.cell,
        lender=w.other_queue.node,
        borrower=w.queue.node,
        starts_at=NOW + timedelta(days=days[0]),
        ends_at=NOW + timedelta(days=days[1]),
        state=state,
        actor_name="ann",
    )
    for flavor in (w.flavor, Flavor.unscoped.exclude(pk=w.flavor.pk).first()):
        if flavor is not None:
            loan.amounts.create(flavor=flavor, resource=Resource.GPU_CARDS, amount=gpus)


@pytest.mark.django_db
def test_transfers_lie_between_their_days_and_show_to_their_two_sides(client: Client) -> None:
    w = world()
    with time_machine.travel(NOW, tick=False):
        clusters.flavor(w.cluster, "h100")
        assert describe_calendar(w.admin, NOW) is None
        lend(w, (2, 8), OverrideState.PLANNED, 3)
        lend(w, (-2, 3), OverrideState.ACTIVE, 2)
        lend(w, (-20, -10), OverrideState.ENDED, 1)
        found = describe_calendar(w.admin, NOW)
        client.force_login(w.outsider)
        text = client.get("/ops/loans").content.decode()
        stranger = tenancy.user("zoe", tenancy.workspace("team-z"))

        assert describe_calendar(stranger, NOW) is None

    assert found is not None
    # Ten days from two days ago on.
    bars = [(row.bar.kind.split(" ")[0], row.bar.start, row.bar.width) for row in found.rows]
    assert bars == [("fill-used", 0.0, 50.0), ("time-start", 40.0, 60.0)]
    assert (found.now, found.left_out) == (20.0, 0)
    assert [tick.text for tick in found.ticks] == ["05-04", "05-06", "05-08", "05-10", "05-12"]
    assert "2026-05-02 12:00" in found.rows[0].words and "2026-05-07 12:00" in found.rows[0].words
    assert found.rows[0].amounts == ["a100 · 2 GPUs", "h100 · 2 GPUs"]
    assert "<small>a100 · 2 GPUs</small><small>h100 · 2 GPUs</small>" in text
    assert "Calendar" in text and "Days begin at 00:00 UTC" in text


@pytest.mark.django_db
def test_transfers_beyond_the_first_to_begin_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world()
    monkeypatch.setattr(loan_calendar, "MOST", 2)
    for days in ((4, 5), (1, 9), (1, 2)):
        lend(w, days, OverrideState.PLANNED, 1)
    found = describe_calendar(w.admin, NOW)
    assert found is not None and found.left_out == 1
    assert [(round(row.bar.start, 1), round(row.bar.width, 1)) for row in found.rows] == [
        (11.1, 11.1),
        (11.1, 88.9),
    ]


@pytest.mark.django_db
def test_pools_of_one_name_in_two_clusters_are_two_lines() -> None:
    w = world()
    lend(w, (2, 8), OverrideState.PLANNED, 3)
    loan = Override.unscoped.get()
    same = clusters.flavor(clusters.cluster(w.cell, "east"), w.flavor.name)
    other = clusters.flavor(w.cluster, "h100")
    for pool, gpus in ((same, 2), (other, 1)):
        loan.amounts.create(flavor=pool, resource=Resource.GPU_CARDS, amount=gpus)
    lines = labels.loan_lines(override_get(w.admin, loan.pk).amounts.all())
    assert lines == ["east/a100 · 2 GPUs", "sim/a100 · 3 GPUs", "h100 · 1 GPU"]
