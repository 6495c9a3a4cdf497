"""A lease outlives work that takes longer than it lasts, on a database that several threads share."""

from __future__ import annotations

import pytest
from django.conf import settings

from clusters.models import Cell
from foundation.messaging import leases
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.wait import wait_until

pytestmark = pytest.mark.server


def test_work_longer_than_the_lease_keeps_it(
    on_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "ALLOTMENT_LEASE_S", 0.3)
    cell = Cell.unscoped.create(name="c")
    with leases.hold_lease(Cell, cell.pk) as epoch:
        taken = Cell.unscoped.get(pk=cell.pk).lease_until
        assert taken is not None

        def outlived() -> bool:
            until = Cell.unscoped.get(pk=cell.pk).lease_until
            return until is not None and (until - taken).total_seconds() > 2 * settings.ALLOTMENT_LEASE_S

        wait_until(outlived, "the lease was renewed beyond its first end", within_s=10)
        with leases.hold_lease(Cell, cell.pk) as other:
            assert other is None
        assert Cell.unscoped.get(pk=cell.pk).epoch == epoch
    assert Cell.unscoped.get(pk=cell.pk).lease_until is None


def test_a_holder_that_slept_through_its_lease_knows_it(
    on_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell.unscoped.create(name="c")
    leases.require_held()  # under no lease there is nothing to lose

    with leases.hold_lease(Cell, cell.pk):
        leases.require_held()
        late = leases._seconds() + settings.ALLOTMENT_LEASE_S + 1
        with monkeypatch.context() as asleep:
            asleep.setattr(leases, "_seconds", lambda: late)
            with pytest.raises(leases.LeaseLost):
                leases.require_held()

    leases.require_held()
