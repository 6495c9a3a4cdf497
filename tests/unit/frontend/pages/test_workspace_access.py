"""Signing in, the one-time password, one's account, the first page, the search."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from django.test import Client

from clusters.models import Node
from foundation.core.actor import SYSTEM
from scheduling.models import JobState
from tenants.services.account import user_create
from tests.builders import jobs, quotas, tenancy
from tests.builders.world import World, world

PASSWORD = "a long password 1"


@pytest.fixture
def w(db: None) -> World:
    return world()


def sign_in(client: Client, name: str, password: str = PASSWORD, **more: str) -> Any:
    return client.post("/login", {"username": name, "password": password, **more})


def test_strangers_are_sent_to_sign_in_and_back(client: Client, w: World) -> None:
    answer = client.get("/w/team-a/jobs?state=failed")
    assert answer.status_code == 302
    assert answer["Location"] == "/login?next=/w/team-a/jobs%3Fstate%3Dfailed"

    answer = sign_in(client, "ed", next="/w/team-a/jobs?state=failed")
    assert answer["Location"] == "/w/team-a/jobs?state=failed"


def test_a_refreshed_part_leads_back_to_its_page(client: Client, w: World) -> None:
    shown = "http://testserver/w/team-a/jobs?who=mine"
    answer = client.get("/w/team-a/jobs?who=mine&part=rows", headers={"HX-Current-URL": shown})
    assert answer["Location"] == "/login?next=/w/team-a/jobs%3Fwho%3Dmine"


def test_a_wrong_password_is_said_and_the_name_kept(client: Client, w: World) -> None:
    answer = sign_in(client, "ed", "wrong")
    assert answer.status_code == 200
    assert 'value="ed"' in answer.content.decode()


def test_too_many_wrong_passwords_lock(client: Client, w: World, settings: Any) -> None:
    settings.AXES_ENABLED = True
    for _try in range(9):
        answer = sign_in(client, "ed", "wrong")
    assert answer.status_code == 429
    assert "Too many failed sign-in attempts" in answer.content.decode()


def test_a_one_time_password_opens_only_the_account(client: Client, w: World) -> None:
    user = user_create(acting_user=SYSTEM, username="new", password=PASSWORD, must_change_password=True)
    tenancy.member(user, w.workspace, tenancy.Role.EDITOR)
    sign_in(client, "new")
    assert client.get("/w/team-a/overview")["Location"] == "/account"
    shown = client.get("/account").content.decode()
    assert "Set a new password to continue." in shown and "One-time password expires" in shown

    fresh = "quite another 2"
    answer = client.post("/account", {"old": PASSWORD, "new": fresh, "again": fresh})
    assert answer["Location"] == "/"
    assert client.get("/w/team-a/overview").status_code == 200


@pytest.mark.parametrize(
    ("old", "new", "again", "said"),
    [
        ("wrong", "quite another 2", "quite another 2", "Current password is incorrect."),
        (PASSWORD, "short", "short", "too short"),
        (PASSWORD, "quite another 2", "quite another 3", "Passwords don&#x27;t match."),
        (PASSWORD, PASSWORD, PASSWORD, "must differ from the current one"),
    ],
)
def test_bad_passwords_are_refused(
    client: Client, w: World, old: str, new: str, again: str, said: str
) -> None:
    client.force_login(w.editor)
    answer = client.post("/account", {"old": old, "new": new, "again": again})
    assert answer.status_code == 200
    assert said in answer.content.decode()
    w.editor.refresh_from_db()
    assert w.editor.check_password(PASSWORD)


def test_signing_out_needs_a_post(client: Client, w: World) -> None:
    client.force_login(w.editor)
    assert client.get("/logout").status_code == 405
    assert client.post("/logout")["Location"] == "/login"
    assert client.get("/account").status_code == 302


def test_the_first_page_is_where_ones_work_is(client: Client, w: World) -> None:
    client.force_login(w.editor)
    assert client.get("/")["Location"] == "/w/team-a/overview"
    client.force_login(w.platform_admin)
    assert client.get("/")["Location"] == "/ops/overview"
    client.force_login(tenancy.user("nobody"))
    assert "You aren't a member of any workspace" in client.get("/").content.decode()


def test_search_finds_what_is_in_sight(client: Client, w: World) -> None:
    mine = jobs.job(w.queue, w.editor, "llama-1")
    jobs.job(w.other_queue, w.outsider, "llama-2", state=JobState.SUCCEEDED)
    client.force_login(w.viewer)
    assert client.get("/search?q=llama")["Location"] == f"/w/team-a/jobs/{mine.pk}"

    client.force_login(w.platform_admin)
    page = client.get("/search?q=llama").content.decode()
    assert "llama-1" in page
    assert "llama-2" in page


def test_search_finds_workspaces_and_a_long_switcher_searches(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)
    assert "Search workspaces" not in client.get("/w/team-a/jobs").content.decode()
    for number in range(25):
        tenancy.workspace(f"crew-{number:02d}")
    page = client.get("/w/team-a/jobs").content.decode()
    switcher = page[page.index('class="menu switcher"') :].partition("</details>")[0]
    assert switcher.count("<a href=") == 20 and "Search workspaces" in switcher
    assert '<a href="/w/team-a" aria-current="true">' in switcher, "the current one is among them"
    found = client.get("/search?q=crew-1").content.decode()
    assert found.partition("<tbody>")[2].count('href="/w/crew-1') == 10
    assert client.get("/search?q=crew-07")["Location"] == "/w/crew-07"
    client.force_login(w.viewer)
    assert "No results" in client.get("/search?q=crew").content.decode()


def test_search_shows_nodes_to_operators_only(client: Client, w: World) -> None:
    name = Node.unscoped.order_by("name").values_list("name", flat=True)[0]
    client.force_login(w.platform_admin)
    assert client.get(f"/search?q={name}")["Location"] == f"/ops/nodes/{name}?cluster=sim"
    client.force_login(w.viewer)
    assert "No results" in client.get(f"/search?q={name}").content.decode()


def test_search_shows_pools_and_clusters_to_operators_only(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)
    for text in (w.flavor.name.upper(), w.flavor.card_model):
        assert client.get(f"/search?q={text}")["Location"] == f"/ops/flavors/sim/{w.flavor.name}"
    assert client.get("/search?q=sim")["Location"] == "/ops/clusters/sim"
    client.force_login(w.viewer)
    for text in (w.flavor.name, "sim"):
        assert "No results" in client.get(f"/search?q={text}").content.decode()


def test_search_finds_queues_and_users_in_sight(client: Client, w: World) -> None:
    quotas.queue(w.cell, w.workspace, [w.flavor], name="vision-a")
    quotas.queue(w.cell, w.other_workspace, [w.flavor], name="vision-b")
    client.force_login(w.platform_admin)
    found = client.get("/search?q=vision").content.decode()
    for address in ("/w/team-a/queues/vision-a", "/w/team-b/queues/vision-b"):
        assert f'href="{address}"' in found
    assert client.get("/search?q=otto")["Location"] == f"/ops/users/{w.outsider.pk}"

    client.force_login(w.editor)
    assert client.get("/search?q=vision")["Location"] == "/w/team-a/queues/vision-a"
    found = client.get("/search?q=vera").content.decode()
    assert ">vera<" in found and "/ops/users/" not in found, "a colleague, but no page of accounts"
    assert "No results" in client.get("/search?q=otto").content.decode()


@pytest.mark.parametrize("signed_in", [True, False])
def test_an_unknown_address_has_a_page_of_its_own(client: Client, w: World, signed_in: bool) -> None:
    if signed_in:
        client.force_login(w.editor)
    answer = client.get("/no/such/page")
    assert answer.status_code == 404
    assert "Page not found" in answer.content.decode()


def test_a_failure_of_the_server_shows_nothing_of_itself(client: Client, w: World) -> None:
    client.force_login(w.editor)
    client.raise_request_exception = False
    with patch("frontend.pages.jobs.workspace_overview._page", side_effect=RuntimeError("secret detail")):
        answer = client.get("/w/team-a/overview")
    assert answer.status_code == 500
    assert "Action failed" in answer.content.decode()
    assert "secret detail" not in answer.content.decode()
