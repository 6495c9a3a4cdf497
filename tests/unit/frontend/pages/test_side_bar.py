"""The side bar names the pages that its reader may open, and no other."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tenants.access.permissions import Permission
from tenants.models import Member, Role, User
from tests.builders import tenancy
from tests.builders.world import World, world

_ENTRIES = re.compile(r'<nav(?: aria-label="[^"]*")?>(.*?)</nav>', re.DOTALL)
_STARTS = ("/account", "/w/team-a/overview", "/ops/quotas", "/ops/jobs", "/ops/nodes")


def _reader(w: World, name: str) -> User:
    match name:
        case "folder admin":
            return tenancy.user("fay", tenancy.root(), Role.ADMIN)
        case "platform viewer":
            return tenancy.user("pat", None, Role.PLATFORM_VIEWER)
        case "auditor":
            return tenancy.user("aude", None, Role.AUDITOR)
        case "reader of jobs" | "reader of quota":
            point = Permission.JOB_VIEW if name.endswith("jobs") else Permission.QUOTA_VIEW
            role = tenancy.custom_role(tenancy.root(), "reader", Permission.TENANT_VIEW, point)
            reader = tenancy.user("rita")
            Member.unscoped.create(user=reader, tenant=w.workspace, role="", custom_role=role)
            return reader
    found: User = getattr(w, name.replace(" ", "_"))
    return found


@pytest.mark.parametrize(
    "name",
    [
        *("viewer", "editor", "admin", "folder admin", "reader of jobs", "reader of quota"),
        *("platform viewer", "auditor", "platform admin"),
    ],
)
def test_every_entry_of_the_side_bar_opens(db: None, client: Client, name: str) -> None:
    client.force_login(_reader(world(), name))
    addresses: set[str] = set()
    for start in _STARTS:
        first = client.get(start)
        if first.status_code == 200:
            addresses.update(re.findall(r'href="([^"]+)"', "".join(_ENTRIES.findall(first.content.decode()))))
    assert addresses
    assert {address for address in addresses if client.get(address).status_code != 200} == set()


def test_the_audit_log_is_an_entry_for_those_who_may_read_it(db: None, client: Client) -> None:
    w = world()
    for user, shown in ((w.viewer, False), (w.editor, False), (w.admin, True), (w.platform_admin, True)):
        client.force_login(user)
        assert ('href="/w/team-a/audit"' in client.get("/w/team-a/overview").content.decode()) is shown


def test_a_page_that_is_refused_names_no_page_of_the_platform(db: None, client: Client) -> None:
    client.force_login(world().admin)
    answer = client.get("/ops/nodes")
    assert answer.status_code == 403
    assert 'href="/ops/audit"' not in answer.content.decode()
