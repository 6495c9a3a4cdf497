"""The result of a loan does not depend on which rows the web process of the acting user may see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection

from foundation.core import clock
from foundation.core.actor import SYSTEM
from foundation.sql import row_scope
from quotas.models import Override, OverrideState, QuotaNode
from quotas.services.overrides.override import LoanAmount, override_create, override_end
from quotas.services.quota import QuotaAmount, quota_set
from tenants.access.row_policies import WEB_ROLE
from tenants.access.row_scope import scope_of
from tenants.models import User
from tenants.services.tenant_move import tenant_move
from tests.builders import quotas, tenancy
from tests.fixtures.postgres import PostgresServer
from tests.integration.quotas.department import CARDS, Department

pytestmark = pytest.mark.server


@contextmanager
def web_process_of(user: User) -> Iterator[None]:
    """Run as a request of the user in a process to which the row policies apply."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET ROLE {WEB_ROLE}")
    try:
        with row_scope.use_scope(scope_of(user)):
            yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET ROLE")


def lend(here: Department, lender: QuotaNode, borrower: QuotaNode, cards: int, days: int) -> Override:
    return override_create(
        acting_user=SYSTEM,
        lender=lender,
        borrower=borrower,
        amounts=[LoanAmount(here.flavor, CARDS, cards)],
        starts_at=None,
        ends_at=clock.now() + timedelta(days=days),
    )


def give(here: Department, node: QuotaNode, cards: int, *, on_top: bool = False) -> None:
    amounts = [QuotaAmount(here.flavor, CARDS, cards)]
    quota_set(acting_user=SYSTEM, node=node, amounts=amounts, on_top=on_top)


def test_what_a_borrower_out_of_sight_had_below_it_follows_a_tenant_that_moves(
    on_postgres: PostgresServer,
) -> None:
    here = Department()
    outside = quotas.quota_node(here.cell, tenancy.folder("products"))
    root = quotas.quota_node(here.cell, tenancy.root())
    east, west = (tenancy.folder(name, here.folder) for name in ("east", "west"))
    mule = quotas.quota_node(here.cell, tenancy.workspace("mule", east))
    left, entered = (quotas.quota_node(here.cell, folder) for folder in (east, west))
    taker = quotas.quota_node(here.cell, tenancy.workspace("taker", here.folder))
    give(here, taker, 10)
    for node, cards in ((outside, 8), (mule, 5)):
        give(here, node, cards, on_top=True)
    loan = lend(here, outside, root, 8, days=2)
    give(here, here.node, 35)
    give(here, here.node_a, 12)
    give(here, here.node_b, 8)
    assert (here.own_nominal(root), here.own_nominal(here.node)) == (0, 0)
    with web_process_of(here.anna):
        tenant_move(acting_user=here.anna, tenant=mule.tenant, parent=west)

    assert (here.has(left), here.has(entered)) == (0, 5)
    override_end(acting_user=SYSTEM, override=loan)
    assert (here.has(mule), here.has(outside)) == (5, 8)


def test_a_loan_ends_with_what_was_lent_on_to_whom_its_decider_cannot_see(
    on_postgres: PostgresServer,
) -> None:
    here = Department()
    stranger = quotas.quota_node(here.cell, tenancy.folder("products"))
    first = lend(here, here.queue_a.node, here.node_b, 3, days=2)
    second = lend(here, here.node_b, stranger, 3, days=1)
    with web_process_of(here.anna):
        override_end(acting_user=here.anna, override=first)

    second.refresh_from_db()
    assert (second.state, here.has(stranger), here.sums()) == (OverrideState.ENDED, 0, (22, 8, 4))
