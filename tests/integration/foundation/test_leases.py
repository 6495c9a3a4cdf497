"""One holder at a time; every taking raises the epoch; a stale epoch is refused."""

from __future__ import annotations

from contextvars import copy_context
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from clusters.models import Cell
from foundation.messaging import leases

pytestmark = pytest.mark.django_db


def test_a_second_holder_waits_and_the_epoch_rises() -> None:
    cell = Cell.unscoped.create(name="c")
    with leases.hold_lease(Cell, cell.pk) as first:
        assert first == 1
        with leases.hold_lease(Cell, cell.pk) as second:
            assert second is None
    with leases.hold_lease(Cell, cell.pk) as third:
        assert third == 2


def test_an_expired_lease_is_taken_over_and_its_holder_can_no_longer_commit() -> None:
    cell = Cell.unscoped.create(name="c")
    with leases.hold_lease(Cell, cell.pk) as first:
        assert first == 1
        # As if the holder had been paused for longer than its lease.
        Cell.unscoped.filter(pk=cell.pk).update(lease_until=Now() - timedelta(seconds=1))
        with leases.hold_lease(Cell, cell.pk) as second:
            assert second == 2
            with pytest.raises(leases.LeaseLost), transaction.atomic():
                leases.lock_current(Cell, cell.pk, first)
            with transaction.atomic():
                assert leases.lock_current(Cell, cell.pk, second).pk == cell.pk


def test_a_renewal_extends_the_own_lease_and_no_other() -> None:
    cell = Cell.unscoped.create(name="c")

    def left() -> bool:
        return Cell.unscoped.filter(pk=cell.pk, lease_until__gt=Now() + timedelta(seconds=60)).exists()

    with leases.hold_lease(Cell, cell.pk):
        holder = Cell.unscoped.get(pk=cell.pk).lease_holder
        assert not leases.renew_lease(Cell, cell.pk, "somebody-else", 90)
        assert not left()
        assert leases.renew_lease(Cell, cell.pk, holder, 90)
        assert left()
    assert not leases.renew_lease(Cell, cell.pk, holder, 90)  # given back is given back
    assert not left()


def test_a_paused_holder_does_not_release_its_successor() -> None:
    cell = Cell.unscoped.create(name="c")
    outer, its_context = leases.hold_lease(Cell, cell.pk), copy_context()
    its_context.run(outer.__enter__)
    Cell.unscoped.filter(pk=cell.pk).update(lease_until=Now() - timedelta(seconds=1))
    with leases.hold_lease(Cell, cell.pk):
        its_context.run(outer.__exit__, None, None, None)
        with leases.hold_lease(Cell, cell.pk) as third:
            assert third is None


def test_a_holder_paused_before_it_learnt_its_epoch_holds_nothing() -> None:
    cell = Cell.unscoped.create(name="c")
    seen: list[int | None] = []

    def overtake(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        answer = execute(sql, params, many, context)
        if sql.startswith("UPDATE") and not seen:
            seen.append(None)
            Cell.unscoped.filter(pk=cell.pk).update(lease_until=Now() - timedelta(seconds=1))
            with leases.hold_lease(Cell, cell.pk) as successor:
                seen.append(successor)
        return answer

    with connection.execute_wrapper(overtake), leases.hold_lease(Cell, cell.pk) as paused:
        assert paused is None
    assert seen == [None, 2]
