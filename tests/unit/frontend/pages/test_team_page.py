"""The page of a new team: reviewed while it is typed, created once, and mistakes beside their fields."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from quotas.models import Quota
from tenants.models import Member, Role, Tenant, User
from tests.builders import quotas, tenancy
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import fields_of

pytestmark = pytest.mark.django_db

NEW = "/ops/teams/new"
POOL = "pool.sim.a100"


@pytest.fixture
def w() -> World:
    made = world()
    Quota.unscoped.filter(node__tenant=tenancy.root()).delete()
    quotas.gpu_quota(quotas.quota_node(made.cell, tenancy.root()), made.flavor, 16)
    return made


@pytest.fixture
def boss(w: World) -> Client:
    return signed_in(w.platform_admin)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def typed(client: Client, w: World, **changes: str) -> dict[str, str]:
    """The form as the page shows it, with a name, GPUs and what else is typed."""
    fields = fields_of(client.get(NEW).content.decode(), "team-form")
    return {**fields, "name": "Vision", "do": "create", f"{POOL}-gpus": "4", **changes}


def error_of(page: str, field: str) -> str:
    found = re.search(rf'id="id_{re.escape(field)}_error">(.*?)</div>', page, re.DOTALL)
    return re.sub(r"<[^>]+>", "", found[1]).strip() if found else ""


def test_a_team_of_known_and_invited_people_is_created(boss: Client, w: World) -> None:
    people = {"p0-username": "otto", "p0-role": "admin", "p1-username": "nora", "p1-email": "n@example.com"}
    fields = typed(boss, w, **people)
    review = boss.post(f"{NEW}/check", fields).content.decode()
    assert "Ready to create" in review and "Invited: nora" in review and "a100: 4 GPUs" in review
    assert not Tenant.unscoped.filter(slug="vision").exists()

    answer = boss.post(NEW, fields)
    page = answer.content.decode()
    assert answer.status_code == 200 and answer["Cache-Control"] == "no-store"
    assert re.search(r"http://testserver/invitation/[\w-]+/\w+", page)
    roles = dict(Member.unscoped.filter(tenant__slug="vision").values_list("user__username", "role"))
    assert roles == {"otto": Role.ADMIN, "nora": Role.EDITOR}

    again = boss.post(NEW, fields, follow=True)
    assert "already created" in again.content.decode() and "/invitation/" not in again.content.decode()
    assert Tenant.unscoped.filter(name="Vision").count() == 1
    other = boss.post(NEW, {**fields, "name": "Second"})
    assert other.status_code == 409 and "already submitted" in other.content.decode()
    assert fields_of(other.content.decode(), "team-form")["key"] != fields["key"]


def test_a_team_without_invitations_leads_to_its_workspace(boss: Client, w: World) -> None:
    answer = boss.post(NEW, typed(boss, w, **{"p0-username": "otto"}))
    assert (answer.status_code, answer["Location"]) == (302, "/w/vision/overview")


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"name": " "}, "name", "required"),
        ({"name": "team a"}, "name", "already exists"),
        ({"slug": "UPPER"}, "slug", "Invalid tenant ID"),
        ({"p1-username": "ghost", "invite": ""}, "p1-username", "User ghost not found."),
        ({"p2-email": "x@example.com"}, "p2-username", "Enter a username."),
        ({"gpus": "some"}, "pool-gpus", "whole GPUs"),
        ({"gpus": "17"}, "pool-gpus", "Insufficient quota"),
        ({"gpus": "", "cpu": "8"}, "pool-gpus", "whole GPUs"),
        ({"cpu": "many"}, "pool-cpu", "Invalid CPU amount"),
        ({"memory": "1Zi"}, "pool-memory", "Invalid memory amount"),
        ({"queue": "My queue"}, "queue", "Invalid queue name"),
    ],
)  # fmt: skip
def test_a_mistake_is_shown_at_its_field_and_the_input_stays(
    boss: Client, w: World, changes: dict[str, str], field: str, message: str
) -> None:
    short = {"gpus", "cpu", "memory"}
    given = {f"{POOL}-{name}" if name in short else name: value for name, value in changes.items()}
    fields: dict[str, Any] = typed(boss, w, **{"p0-username": "otto", **given})
    if not fields.get("invite"):
        fields.pop("invite", None)
    answer = boss.post(NEW, fields)
    page = answer.content.decode()
    assert answer.status_code in (400, 409, 422) and "No changes were made. Your input is kept." in page
    assert message in error_of(page, field.replace("pool-", f"{POOL}-"))
    shown = fields_of(page, "team-form")
    assert {name: shown.get(name, "") for name in fields if name not in ("do", "csrfmiddlewaretoken")} == {
        name: value for name, value in fields.items() if name not in ("do", "csrfmiddlewaretoken")
    }
    assert Tenant.unscoped.count() == 3


def test_a_team_that_starts_nothing_needs_a_word(boss: Client, w: World) -> None:
    fields = typed(boss, w, **{f"{POOL}-gpus": "0", f"{POOL}-borrowing_limit": "0"})
    assert "No job with 1 GPU can start" in boss.post(f"{NEW}/check", fields).content.decode()
    page = boss.post(NEW, fields).content.decode()
    assert "Create the team anyway" in page and not Tenant.unscoped.filter(slug="vision").exists()
    assert boss.post(NEW, {**fields, "allow_idle": "on"}).status_code == 302


def test_rows_are_added_without_a_word_about_what_is_missing(boss: Client, w: World) -> None:
    fields = typed(boss, w, **{"do": "add-people", "name": "", "p2-username": "otto"})
    page = boss.post(NEW, fields).content.decode()
    shown = fields_of(page, "team-form")
    assert shown["people"] == "6" and shown["p2-username"] == "otto" and "p5-username" in shown
    assert "wrong" not in page


def test_the_page_is_for_those_who_divide_a_folder(w: World) -> None:
    assert signed_in(w.admin).get(NEW).status_code == 403
    labs = tenancy.folder("labs")
    quotas.gpu_quota(quotas.quota_node(w.cell, labs), w.flavor, 8)
    lea = signed_in(tenancy.user("lea", labs, Role.ADMIN))
    page = lea.get(NEW).content.decode()
    assert "8 GPUs unassigned, 16 in the pool" in page and "Invite people" not in page and "Root" not in page
    answer = lea.post(NEW, typed(lea, w, **{"p0-username": "nora"}))
    assert "Ask a platform admin to invite" in error_of(answer.content.decode(), "p0-username")


def test_a_folder_without_quota_is_raised_from_the_one_above(boss: Client, w: World) -> None:
    """The review names who has GPUs left; raising takes exactly what is lacking, and the form is kept."""
    research = tenancy.folder("research")
    node = quotas.quota_node(w.cell, research)
    quotas.gpu_quota(node, w.flavor, 1)
    quotas.queue(w.cell, tenancy.workspace("speech", research), [w.flavor], cards=2)
    fields = typed(boss, w, parent=str(research.pk))
    review = boss.post(f"{NEW}/check", fields).content.decode()
    assert "Research lacks 3 GPUs" in review and "Raise Research by 3 GPUs" in review
    assert "Root: 16 GPUs unassigned" in review and "Speech: 2 of 2 GPUs unused" in review
    answer = boss.post(NEW, {**fields, "do": "raise"})
    assert answer.status_code == 200
    kept = fields_of(answer.content.decode(), "team-form")
    assert (kept["name"], kept[f"{POOL}-gpus"]) == ("Vision", "4")
    own = {
        tenant: Quota.unscoped.get(
            node__tenant=tenant, node__is_queue=False, resource="gpu.cards"
        ).own_nominal
        for tenant in (research, tenancy.root())
    }
    assert own == {research: 4, tenancy.root(): 13}
    assert boss.post(NEW, {**kept, "do": "create"}).status_code == 302
    assert Quota.unscoped.get(node=node, resource="gpu.cards").own_nominal == 0


def test_a_pool_that_is_all_assigned_leads_to_the_quota_of_others(boss: Client, w: World) -> None:
    """The root has no parent with quota, and a raise would create quota for GPUs that don't exist."""
    review = boss.post(f"{NEW}/check", typed(boss, w, **{f"{POOL}-gpus": "17"})).content.decode()
    assert "Root lacks 1 GPU" in review and "Raise" not in review and "Parent tenants" not in review
    assert "A raise would exceed the size of the pool. Reduce the quota of another tenant" in review
    review = boss.post(f"{NEW}/check", typed(boss, w, **{f"{POOL}-gpus": "0"})).content.decode()
    assert "A job with 1 GPU can start by borrowing." in review
    boss.cookies["allotment_language"] = "zh-hans"
    quotas.queue(w.cell, tenancy.workspace("speech"), [w.flavor], cards=2)
    review = boss.post(f"{NEW}/check", typed(boss, w, **{f"{POOL}-gpus": "17"})).content.decode()
    assert "GPU，" in review and "GPU, " not in review


def test_who_does_not_decide_about_the_folder_cannot_raise_it(w: World) -> None:
    research = tenancy.folder("research")
    quotas.gpu_quota(quotas.quota_node(w.cell, research), w.flavor, 1)
    anna = signed_in(tenancy.user("anna", research, Role.ADMIN))
    fields = typed(anna, w, parent=str(research.pk))
    review = anna.post(f"{NEW}/check", fields).content.decode()
    assert "Research lacks 3 GPUs" in review and "another admin decides about it" in review
    assert "Root" not in review and 'value="raise"' not in review
    assert anna.post(NEW, {**fields, "do": "raise"}).status_code == 200
    assert Quota.unscoped.get(node__tenant=research, resource="gpu.cards").own_nominal == 1
