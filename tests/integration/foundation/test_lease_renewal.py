"""A lease outlives work that takes longer than it lasts, on a database that several threads share."""

from __future__ import annotations

import pytest
from django.conf import settings

from clusters.models import Cell
from foundation import leases
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.wait import wait_until

pytestmark = pytest.mark.server


def test_work_longer_than_the_lease_keeps_it(
    on_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "ALLOTMENT_LEASE_S", 0.3)
    cell = Cell.unscoped.create(name="c")
    with leases.held(Cell, cell.pk) as epoch:
        taken = Cell.unscoped.get(pk=cell.pk).lease_until
        assert taken is not None

        def outlived() -> bool:
            until = Cell.unscoped.get(pk=cell.pk).lease_until
            return until is not None and (until - taken).total_seconds() > 2 * settings.ALLOTMENT_LEASE_S

        wait_until(outlived, "the lease was renewed beyond its first end", within_s=10)
        with leases.held(Cell, cell.pk) as other:
            assert other is None
        assert Cell.unscoped.get(pk=cell.pk).epoch == epoch
    assert Cell.unscoped.get(pk=cell.pk).lease_until is None
