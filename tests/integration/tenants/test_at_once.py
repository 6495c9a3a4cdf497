"""Changes of the tree and of members at the same moment, on a database with real locks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from foundation.core.actor import SYSTEM
from foundation.core.errors import AllotmentError
from tenants.models import Member, Role, Tenant, TenantKind
from tenants.services.member import member_remove
from tenants.services.tenant import tenant_create
from tenants.services.tenant_move import tenant_move
from tests.builders import tenancy
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.server


def at_once(*calls: Callable[[], object]) -> list[str]:
    """Run all calls side by side; the codes of those that were refused."""
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> str:
        try:
            gate.wait(20)
            call()
        except AllotmentError as error:
            return error.code
        finally:
            connection.close()
        return ""

    with ThreadPoolExecutor(len(calls)) as pool:
        return sorted(code for code in pool.map(run, calls) if code)


def test_two_moves_never_close_a_circle(on_postgres: PostgresServer) -> None:
    boss = tenancy.platform_admin()
    one, two = tenancy.folder("one"), tenancy.folder("two")
    refused = at_once(
        lambda: tenant_move(acting_user=boss, tenant=one, parent=two),
        lambda: tenant_move(acting_user=boss, tenant=two, parent=one),
    )
    assert refused == ["INVALID"]
    paths = dict(Tenant.unscoped.values_list("slug", "path"))
    assert sorted(path.count("/") for path in paths.values()) == [2, 3, 4]


def test_one_of_many_gets_the_name(on_postgres: PostgresServer) -> None:
    boss, root = tenancy.platform_admin(), tenancy.root()
    refused = at_once(*(
        lambda n=n: tenant_create(
            acting_user=boss, parent=root, kind=TenantKind.FOLDER, slug=f"lab-{n}", name=["Lab", "LAB"][n % 2]
        )
        for n in range(6)
    ))  # fmt: skip
    assert refused == ["NAME_TAKEN"] * 5


def test_two_admins_are_not_removed_at_the_same_moment(on_postgres: PostgresServer) -> None:
    one, two = tenancy.platform_admin("one"), tenancy.platform_admin("two")
    of_one, of_two = (Member.unscoped.get(user=user) for user in (one, two))
    refused = at_once(
        lambda: member_remove(acting_user=SYSTEM, member=of_two),
        lambda: member_remove(acting_user=SYSTEM, member=of_one),
    )
    assert refused == ["LAST_PLATFORM_ADMIN"]
    assert Member.unscoped.filter(role=Role.PLATFORM_ADMIN).count() == 1
