"""Concurrent decisions and sweeps, and a limit that many jobs reach at once, on PostgreSQL."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Final

import pytest
from django.db import connection, transaction

from foundation.core import clock
from foundation.core.errors import AllotmentError
from foundation.models import AuditRecord
from quotas.models import Budget, LedgerEntry, Override, QuotaKey, QuotaRequest, QuotaRevision
from quotas.services.budget import budgets_watch
from quotas.services.ledger import ledger_free, ledger_reserve
from quotas.services.overrides.override import LoanAmount, override_create, overrides_sweep
from quotas.services.requests.quota_request import (
    quota_request_approve,
    quota_request_create,
    quota_request_reject,
    quota_requests_expire,
)
from tenants.models import Role
from tests.builders import tenancy
from tests.fixtures.postgres import PostgresServer
from tests.integration.quotas.department import CARDS, Department

pytestmark = pytest.mark.server
AT_ONCE: Final = 8


def together(what: Callable[[int], str]) -> list[str]:
    """Eight threads at one moment; what each came to."""
    barrier = threading.Barrier(AT_ONCE)

    def one(number: int) -> str:
        barrier.wait(30)
        try:
            return what(number)
        except AllotmentError as error:
            return error.code
        finally:
            connection.close()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, range(AT_ONCE)))


def asked(here: Department) -> QuotaRequest:
    wanted = {"flavor": "a100", "resource": "gpu.cards", "nominal": 12}
    return quota_request_create(acting_user=here.ed, node=here.node_a, asked=[wanted], reason="more")


def test_a_request_is_decided_once(on_postgres: PostgresServer) -> None:
    here = Department()
    deciders = [tenancy.user(f"anna-{n}", here.folder, Role.ADMIN) for n in range(AT_ONCE)]
    made = asked(here)

    def decide(number: int) -> str:
        who, mine = deciders[number], QuotaRequest.unscoped.select_related("node__tenant__parent").get()
        if number % 2:
            return str(quota_request_reject(acting_user=who, request=mine, answer="no").state)
        return str(quota_request_approve(acting_user=who, request=mine).state)

    answers = Counter(together(decide))
    assert answers.pop("REQUEST_NOT_PENDING") == AT_ONCE - 1
    made.refresh_from_db()
    assert answers == {made.state: 1}
    approved = made.state == "approved"
    assert here.sums() == ((22, 12, 4) if approved else (22, 8, 4))
    assert QuotaRevision.unscoped.count() == int(approved)
    decided = AuditRecord.unscoped.filter(entity="quota-request").exclude(action="quota-request.create")
    assert decided.count() == 1


def test_sweeps_beside_each_other_do_each_thing_once(on_postgres: PostgresServer) -> None:
    here = Department()
    now = clock.now()
    soon = now + timedelta(hours=1)
    for _ in range(3):
        override_create(
            acting_user=here.anna,
            lender=here.queue_a.node,
            borrower=here.node_b,
            amounts=[LoanAmount(here.flavor, CARDS, 2)],
            starts_at=soon,
            ends_at=soon + timedelta(hours=1),
        )
    asked(here)
    Budget.unscoped.create(tenant=here.a, gpu_hours=0)

    def sweep(at_hours: float) -> Callable[[int], str]:
        def one(number: int) -> str:
            at = now + timedelta(hours=at_hours)
            overrides_sweep(now=at)
            quota_requests_expire(now=at + timedelta(days=30))
            budgets_watch(now=at)
            return "done"

        return one

    assert together(sweep(1.5)) == ["done"] * AT_ONCE
    assert here.sums() == (22, 2, 10)
    assert together(sweep(2.5)) == ["done"] * AT_ONCE
    assert here.sums() == (22, 8, 4)
    told = Counter(AuditRecord.unscoped.values_list("action", flat=True))
    # Lender and borrower both find it in their audit.
    assert (told["loan.start"], told["loan.end"]) == (6, 6)
    assert (told["quota-request.expire"], told["budget.exhausted"]) == (1, 1)
    assert {row.state for row in Override.unscoped.all()} == {"ended"}


def test_the_meter_loses_nothing_among_many(on_postgres: PostgresServer) -> None:
    here = Department()
    now = clock.now()
    key = QuotaKey(here.queue_a.node_id, here.flavor.pk, "gpu.cores")

    def take(number: int) -> str:
        for step in range(5):
            with transaction.atomic():
                ledger_reserve({key: 100}, now=now + timedelta(seconds=step))
            with transaction.atomic():
                ledger_free({key: 100}, now=now + timedelta(seconds=step + 10))
        return "done"

    assert together(take) == ["done"] * AT_ONCE
    row = LedgerEntry.unscoped.get(resource="gpu.cores")
    assert (row.reserved, row.core_ms) == (0, AT_ONCE * 5 * 100 * 10_000)
