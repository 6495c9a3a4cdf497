"""The side bar names the pages that its reader may open, and no other."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from frontend.shell.navigation import GROUPS, OPERATIONS, WORKSPACE, find_address
from tenants.access.permissions import Permission
from tenants.models import Member, Role, User
from tests.builders import tenancy
from tests.builders.world import World, world

_ENTRIES = re.compile(r'<nav(?: aria-label="[^"]*")?>(.*?)</nav>', re.DOTALL)
_READERS = (
    *("viewer", "editor", "admin", "folder admin", "reader of jobs", "reader of quota"),
    *("platform viewer", "auditor", "admin of members", "platform admin"),
)


def _reader(w: World, name: str) -> User:
    match name:
        case "folder admin":
            return tenancy.user("fay", tenancy.root(), Role.ADMIN)
        case "platform viewer":
            return tenancy.user("pat", None, Role.PLATFORM_VIEWER)
        case "admin of members":
            reader, points = tenancy.user("mia"), (Permission.TENANT_VIEW, Permission.MEMBER_EDIT)
            role = tenancy.custom_role(None, "admin of members", *points)
            Member.unscoped.create(user=reader, tenant=None, role="", custom_role=role)
            return reader
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


def _entries(client: Client, start: str) -> set[str]:
    return set(re.findall(r'href="([^"]+)"', "".join(_ENTRIES.findall(client.get(start).content.decode()))))


@pytest.mark.parametrize("name", _READERS)
def test_the_entries_are_the_pages_that_open(db: None, client: Client, name: str) -> None:
    client.force_login(_reader(world(), name))
    for product, start in ((WORKSPACE, "/w/team-a/policy"), (OPERATIONS, "/ops/tenants")):
        arguments = {"workspace": "team-a"} if product == WORKSPACE else {}
        entries = [entry for group in GROUPS[product] for entry in group.entries]
        addresses = {find_address(entry.url_name, **arguments) for entry in entries}
        opened = {address for address in addresses if client.get(address, follow=True).status_code == 200}
        assert opened == _entries(client, start) & addresses


@pytest.mark.parametrize("name", _READERS)
def test_the_first_page_opens_and_leads_to_the_side_where_the_reader_has_pages(
    db: None, client: Client, name: str
) -> None:
    client.force_login(_reader(world(), name))
    first = client.get("/", follow=True)
    assert first.status_code == 200
    below = re.findall(r'href="(/ops/[^"]*)"', first.content.decode())
    assert bool(below) is (name not in ("viewer", "editor", "reader of jobs", "reader of quota"))
    assert {address for address in below if client.get(address).status_code != 200} == set()


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
