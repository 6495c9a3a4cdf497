"""Pages of requests, loans, budgets and limits: contents by viewer, and the effect of each form."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from foundation.core import clock
from foundation.core.quantities import Resource
from frontend.pages.requests.labels import wish_lines
from quotas.models import (
    Budget,
    Override,
    OverrideState,
    Quota,
    QuotaRequest,
    RequestState,
    UserLimit,
)
from quotas.selectors.changes.request_lack import find_offer, find_request_lacks, read_asked_quota
from quotas.services.requests.quota_request import quota_request_counter, quota_request_create
from tenants.models import Role, User
from tenants.selectors.member import list_admins
from tests.builders import clusters, quotas, tenancy
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import ask_batch, post

pytestmark = pytest.mark.django_db
ASK = "/w/team-a/requests"
INBOX = "/ops/requests"


@pytest.fixture
def there() -> World:
    """The root keeps 10 cards, each team has 8 in its queue."""
    made = world()
    root = quotas.quota_node(made.cell, tenancy.root())
    Quota.unscoped.filter(node=root, resource=Resource.GPU_CARDS).update(own_nominal=10)
    return made


@pytest.fixture
def anna(there: World) -> User:
    """An admin of the folder, who is no operator of the platform."""
    return tenancy.user("anna", tenancy.root(), Role.ADMIN)


def signed_in(who: User) -> Client:
    client = Client()
    client.force_login(who)
    return client


def grid(**typed: str) -> dict[str, str]:
    """The grid of limits of a team's queue as it is, some of it typed over."""
    amounts = {"gpu.cards": "8", "gpu.cores": "800", "gpu.memory": str(8 * 40)}
    amounts |= {"cpu": "10000", "memory": "97656.25"}
    values = {f"{name}.nominal": amount for name, amount in amounts.items()}
    for name in amounts:
        values |= {f"{name}.borrowing_limit": "unlimited", f"{name}.lending_limit": "unlimited"}
    return values | typed


def asked(there: World, **more: Any) -> QuotaRequest:
    wanted = {"cluster": "sim", "flavor": "a100", "resource": "gpu.cards", "nominal": 12}
    node = quotas.quota_node(there.cell, there.workspace)
    return quota_request_create(acting_user=there.editor, node=node, asked=[wanted], reason="a paper", **more)


def test_only_pools_that_the_queues_use_can_be_asked_for(there: World) -> None:
    client, other = signed_in(there.editor), clusters.flavor(there.cluster, "far-away")
    assert "far-away" not in client.get(ASK).content.decode()
    sent = grid(**{"gpu.cards.nominal": "12", "do": "ask", "reason": "a paper"})
    node = quotas.quota_node(there.cell, there.workspace)
    address = f"{ASK}?node={node.pk}&flavor={other.pk}"
    assert client.post(address, sent).status_code == 404
    assert not QuotaRequest.unscoped.exists()
    queue = quotas.queue(there.cell, there.workspace, [other], name="second")
    assert "far-away" in client.get(ASK).content.decode()
    assert client.post(address, sent).status_code == 302
    assert QuotaRequest.unscoped.get().asked[0]["flavor"] == "far-away"
    queue.closed_at = clock.now()
    queue.save()
    assert "far-away" not in client.get(f"/ops/tenants/{tenancy.root().pk}/requests").content.decode()


def test_a_workspace_without_a_queue_may_ask_for_every_pool(there: World) -> None:
    team = tenancy.workspace("team-new")
    quotas.quota_node(there.cell, team)
    clusters.flavor(there.cluster, "far-away")
    text = signed_in(tenancy.user("eve", team, Role.EDITOR)).get("/w/team-new/requests").content.decode()
    assert "far-away" in text and "a100" in text


def test_a_member_asks_and_finds_it_in_the_list(there: World) -> None:
    client = signed_in(there.editor)
    text = client.get(ASK).content.decode()
    assert "Request quota" in text and 'name="gpu.cards.nominal" value="8"' in text
    sent = grid(**{"gpu.cards.nominal": "12", "do": "ask", "reason": "a paper"})
    answer = client.post(ASK, sent, follow=True)
    assert answer.redirect_chain and "Pending approval" in answer.content.decode()
    page = answer.content.decode()
    assert "Request submitted. Requests are decided by parent admins." in page
    assert f"Admins of {there.workspace.parent}" not in page
    made = QuotaRequest.unscoped.get()
    # Of the whole workspace, as nothing else is chosen.
    assert (made.node, made.asked[0]["nominal"]) == (there.queue.node.parent, 12)


def test_a_mistake_is_shown_at_its_field_and_what_was_typed_is_kept(there: World) -> None:
    client = signed_in(there.editor)
    few = client.post(ASK, grid(**{"gpu.cards.nominal": "7", "do": "ask", "reason": "a paper"}))
    text = few.content.decode()
    assert few.status_code == 400
    assert (
        "The requested amount isn&#x27;t higher than the current quota." in text
        and 'value="7"' in text
        and "a paper" in text
    )
    silent = client.post(ASK, grid(**{"gpu.cards.nominal": "12", "do": "ask", "reason": ""}))
    assert silent.status_code == 400
    late = grid(**{"gpu.cards.nominal": "12", "do": "ask", "reason": "x", "until": "2020-01-01T00:00"})
    assert "Select a future time." in client.post(ASK, late).content.decode()
    assert not QuotaRequest.unscoped.exists()


def test_filling_in_whole_gpus_sends_nothing(there: World) -> None:
    text = signed_in(there.editor).post(ASK, grid(gpus="12", fill="1", do="ask")).content.decode()
    assert 'name="gpu.cores.nominal" value="1200"' in text
    assert not QuotaRequest.unscoped.exists()


def test_who_may_not_submit_sees_no_form(there: World) -> None:
    client = signed_in(there.viewer)
    assert "Submit request" not in client.get(ASK).content.decode()
    assert (
        client.post(ASK, grid(**{"gpu.cards.nominal": "12", "do": "ask", "reason": "x"})).status_code == 403
    )
    assert signed_in(there.outsider).get(ASK).status_code == 404


def test_no_limit_is_called_what_it_is_called_in_the_language_of_the_page(there: World) -> None:
    client = signed_in(there.editor)
    text = client.get(ASK, headers={"Accept-Language": "zh-hans"}).content.decode()
    assert 'name="gpu.cards.borrowing_limit" value="不限"' in text
    assert 'value="unlimited"' not in text
    # Sent from a page in the other language: still what there is already.
    sent = grid(**{"gpu.cards.nominal": "12", "do": "ask", "reason": "a paper"})
    client.post(ASK, sent, headers={"Accept-Language": "zh-hans"})
    (asked,) = QuotaRequest.unscoped.get().asked
    assert asked["nominal"] == 12
    assert "borrowing_limit" not in asked


def test_an_admin_of_a_folder_asks_for_the_folder(there: World) -> None:
    research = tenancy.folder()
    quotas.gpu_quota(quotas.quota_node(there.cell, research), there.flavor, 2)
    lena = tenancy.user("lena", research, Role.ADMIN)
    client, page = signed_in(lena), f"/ops/tenants/{research.pk}/requests"

    assert page in client.get(f"/ops/tenants/{research.pk}").content.decode()
    text = client.get(page).content.decode()
    assert 'name="gpu.cards.nominal" value="2"' in text
    assert 'href="/ops/quotas?tenant=research"' in text
    assert re.search(r'href="/ops/tenants"[^>]*aria-current="page"', text), "the menu says where this is"
    shown = dict(re.findall(r'name="([a-z.]+_limit|[a-z.]+nominal)" value="([^"]*)"', text))
    answer = client.post(
        page, shown | {"gpu.cards.nominal": "9", "do": "ask", "reason": "a paper"}, follow=True
    )

    made = QuotaRequest.unscoped.get()
    assert (made.node.tenant, made.asked[0]["nominal"]) == (research, 9)
    assert answer.redirect_chain[0][0] == page
    assert "Request submitted. Requests are decided by parent admins." in answer.content.decode()
    client.post(page, {"do": "withdraw", "request": made.pk})
    assert QuotaRequest.unscoped.get().state == RequestState.WITHDRAWN
    assert signed_in(there.outsider).get(page).status_code == 404


def test_a_workspace_has_its_own_page_of_requests(there: World) -> None:
    answer = signed_in(there.editor).get(f"/ops/tenants/{there.workspace.pk}/requests")
    assert (answer.status_code, answer.headers["Location"]) == (302, ASK)


def test_the_inbox_decides(there: World, anna: User) -> None:
    made = asked(there)
    client = signed_in(anna)
    assert "Review" in client.get(INBOX).content.decode()
    one = f"{INBOX}/{made.pk}"
    text = client.get(one).content.decode()
    assert "No usage in the last 30 days" in text and "No metrics available" in text and "a paper" in text
    assert "Impact of approval" in client.get(f"{one}/effect").content.decode()
    assert client.post(one, {"do": "reject", "answer": ""}).status_code == 400
    client.post(one, {"do": "approve", "answer": "go", "version": str(made.version)})
    made.refresh_from_db()
    assert (made.state, made.answer) == (RequestState.APPROVED, "go")
    again = client.post(one, {"do": "reject", "answer": "no"})
    assert again.status_code == 409 and "no longer pending" in again.content.decode()


def test_too_much_is_refused_with_the_sums(there: World, anna: User) -> None:
    made = asked(there)
    Quota.unscoped.filter(node=quotas.quota_node(there.cell, tenancy.root())).update(own_nominal=0)
    refused = signed_in(anna).post(f"{INBOX}/{made.pk}", {"do": "approve"})
    assert refused.status_code == 422
    assert "Root has 16 GPUs" in refused.content.decode()


def short_root(there: World) -> QuotaRequest:
    """The root has one GPU unassigned where four more are requested, and the pool has more."""
    made = asked(there)
    Quota.unscoped.filter(node=quotas.quota_node(there.cell, tenancy.root())).update(own_nominal=1)
    return made


def test_a_request_that_exceeds_the_parent_is_offered_what_is_there(there: World, anna: User) -> None:
    made = short_root(there)
    one, client = f"{INBOX}/{made.pk}", signed_in(anna)
    effect = client.get(f"{one}/effect").content.decode()
    assert "Root lacks 3 GPUs of a100." in effect and "Team B: 8 of 8 GPUs unused" in effect
    address = f"/api/v1/admin/quota-requests/{made.pk}/lacks"
    (told,) = client.get(address).json()["items"]
    assert (told["tenant"], told["flavor"], told["short"]["gpu.cards"]) == ("root", "a100", 3)
    beside = {"tenant": "team-b", "queue": "", "kind": "unused", "amount": 800, "nominal": 800}
    assert beside in told["sources"]
    assert "GPU count: 8 GPUs → 9 GPUs" in effect and "raise-approve" not in effect
    client.post(one, {"do": "offer-available", "answer": "one now", "version": str(made.version)})
    made.refresh_from_db()
    assert (made.state, made.counter[0]["nominal"], made.answer) == (RequestState.COUNTERED, 9, "one now")
    assert client.post(one, {"do": "offer-available"}).status_code == 409
    assert client.get(address).json() == {"items": []}, "a request that is not pending lacks nothing"


def test_the_lacks_of_a_queue_name_the_queues_beside_it(there: World, anna: User) -> None:
    quotas.queue(there.cell, there.workspace, [there.flavor], cards=8, name="night")
    wanted = {"cluster": "sim", "flavor": "a100", "resource": "gpu.cards", "nominal": 12}
    node = there.queue.node
    made = quota_request_create(acting_user=there.editor, node=node, asked=[wanted], reason="a paper")
    (told,) = signed_in(anna).get(f"/api/v1/admin/quota-requests/{made.pk}/lacks").json()["items"]
    assert told["sources"] == [
        {"tenant": "team-a", "queue": "night", "kind": "unused", "amount": 800, "nominal": 800}
    ]
    assert [(one["tenant"], one["queue"]) for one in told["raises"]] == [("team-a", "")]


def test_who_decides_above_raises_and_approves_at_once(there: World) -> None:
    made = short_root(there)
    Quota.unscoped.filter(node__tenant=there.other_workspace, resource="gpu.cards").update(own_nominal=0)
    root = quotas.quota_node(there.cell, tenancy.root())
    client, one = signed_in(there.platform_admin), f"{INBOX}/{made.pk}"
    effect = client.get(f"{one}/effect").content.decode()
    assert "Raise Root by 3 GPUs." in effect and 'value="raise-approve"' in effect
    asked = read_asked_quota(made)
    (lack,) = find_request_lacks(there.platform_admin, asked)
    assert lack.available == {Resource.GPU_CARDS: 1}
    beyond = replace(lack, available={Resource.GPU_CARDS: 40})
    assert find_offer(asked, [beyond]) == [], "raises cover all of it, and nobody gets more than requested"
    client.post(one, {"do": "raise-approve", "version": str(made.version)})
    made.refresh_from_db()
    assert made.state == RequestState.APPROVED
    assert Quota.unscoped.get(node=root, resource="gpu.cards").own_nominal == 0
    own = Quota.unscoped.filter(node__tenant=there.workspace, resource="gpu.cards")
    assert sum(own.values_list("own_nominal", flat=True)) == 12


@pytest.mark.parametrize("do", ["offer-available", "raise-approve"])
def test_all_pools_of_a_request_are_offered_and_raised(there: World, do: str) -> None:
    """Of four more GPUs in each of three pools the root has 1, 4 and 3; its own quota can be raised."""
    before, place = {"a100": 8, "h100": 0, "l40": 0}, quotas.quota_node(there.cell, there.workspace)
    root = quotas.quota_node(there.cell, tenancy.root())
    Quota.unscoped.filter(node__tenant=there.other_workspace, resource="gpu.cards").update(own_nominal=0)
    Quota.unscoped.filter(node=root, resource="gpu.cards").update(own_nominal=1)
    for name, has in (("h100", 4), ("l40", 3)):
        pool = clusters.flavor(there.cluster, name)
        clusters.node(pool, f"more-{name}", cards=16)
        quotas.quota(root, pool, Resource.GPU_CARDS, has)
    wanted = [
        {"cluster": "sim", "flavor": name, "resource": "gpu.cards", "nominal": has + 4}
        for name, has in before.items()
    ]
    made = quota_request_create(acting_user=there.editor, node=place, asked=wanted, reason="a paper")
    client, one = signed_in(there.platform_admin), f"{INBOX}/{made.pk}"
    with CaptureQueriesContext(connection) as sent:
        asked_quota = read_asked_quota(made)
        find_offer(asked_quota, find_request_lacks(there.platform_admin, asked_quota))
    assert sum("ledgerentry" in query["sql"] for query in sent) == 1, "the quota of the cell is read once"
    effect = client.get(f"{one}/effect").content.decode()
    assert "Root lacks 3 GPUs of a100." in effect and "Root lacks 1 GPU of l40." in effect
    answer = client.post(one, {"do": do, "answer": "these", "version": str(made.version)})
    assert answer.status_code == 302, answer.content.decode()
    made.refresh_from_db()
    if do == "offer-available":
        offered = [item["nominal"] - before[item["flavor"]] for item in made.counter]
        assert (made.state, offered) == (RequestState.COUNTERED, [1, 4, 3])
    else:
        assert made.state == RequestState.APPROVED
        own = Quota.unscoped.filter(node__tenant=there.workspace, resource="gpu.cards")
        for name, has in before.items():
            assert sum(own.filter(flavor__name=name).values_list("own_nominal", flat=True)) == has + 4


def test_pools_of_one_name_in_two_clusters_are_distinguished(there: World) -> None:
    root, place = (
        quotas.quota_node(there.cell, tenancy.root()),
        quotas.quota_node(there.cell, there.workspace),
    )
    same = clusters.flavor(clusters.cluster(there.cell, "east"), "a100")
    quotas.quota(root, same, Resource.GPU_CARDS, 1)
    clusters.flavor(there.cluster, "h100")
    wanted = [
        {"cluster": cluster, "flavor": name, "resource": "gpu.cards", "nominal": 24}
        for cluster, name in (("sim", "a100"), ("east", "a100"), ("sim", "h100"))
    ]
    made = quota_request_create(acting_user=there.editor, node=place, asked=wanted, reason="a paper")
    page = signed_in(there.platform_admin).get(f"{INBOX}/{made.pk}/effect").content.decode()
    for text in ("6 GPUs of sim/a100.", "23 GPUs of east/a100.", "24 GPUs of h100."):
        assert f"Root lacks {text}" in page, page
    lines = wish_lines(made.asked, made.current)
    assert [line.partition(" · ")[0] for line in lines] == ["sim/a100", "east/a100", "h100"]


def test_an_offer_for_one_pool_leaves_the_others_as_requested(there: World, anna: User) -> None:
    place = quotas.quota_node(there.cell, there.workspace)
    clusters.flavor(there.cluster, "h100")
    wanted = [
        {"cluster": "sim", "flavor": name, "resource": "gpu.cards", "nominal": amount}
        for name, amount in (("a100", 12), ("h100", 5))
    ]
    made = quota_request_create(acting_user=there.editor, node=place, asked=wanted, reason="a paper")
    one = f"{INBOX}/{made.pk}"
    client = signed_in(there.platform_admin)
    page = client.get(one).content.decode()
    assert "Other pools stay as requested:" in page and "h100 · " in page.split("Other pools stay")[1]
    client.post(one, {**_shown(page), "gpu.cards.nominal": "9", "do": "counter", "answer": "fewer"})
    made.refresh_from_db()
    assert made.state == RequestState.COUNTERED
    assert [(item["flavor"], item["nominal"]) for item in made.counter] == [("a100", 9), ("h100", 5)]


def test_an_offer_is_made_and_accepted(there: World, anna: User) -> None:
    made = asked(there)
    one = f"{INBOX}/{made.pk}"
    typed = _shown(signed_in(anna).get(one).content.decode())
    assert typed["gpu.cards.nominal"] == "12"
    signed_in(anna).post(one, {**typed, "gpu.cards.nominal": "9", "do": "counter", "answer": "one"})
    made.refresh_from_db()
    assert (made.state, made.counter[0]["nominal"]) == (RequestState.COUNTERED, 9)
    client = signed_in(there.editor)
    assert "Proposed instead" in client.get(ASK).content.decode()
    client.post(ASK, {"do": "accept", "request": str(made.pk)})
    made.refresh_from_db()
    assert made.state == RequestState.APPROVED


def test_a_proposal_is_filled_in_for_whole_gpus_and_nothing_is_sent(there: World, anna: User) -> None:
    made = asked(there)
    one = f"{INBOX}/{made.pk}"
    typed = _shown(signed_in(anna).get(one).content.decode())
    sent = {**typed, "gpus": "10", "fill": "1", "answer": "two more"}
    text = signed_in(anna).post(one, sent).content.decode()
    filled = _shown(text)
    assert [filled[f"gpu.{name}.nominal"] for name in ("cards", "cores", "memory")] == [
        "10", "1000", f"{10 * there.flavor.card_memory_mib // 1024}",
    ]  # fmt: skip
    assert 'value="two more"' in text
    made.refresh_from_db()
    assert made.state == RequestState.PENDING
    wrong = signed_in(anna).post(one, {**sent, "gpus": "many"})
    assert wrong.status_code == 400 and "Enter a number of whole GPUs" in wrong.content.decode()


def _shown(text: str) -> dict[str, str]:
    return dict(re.findall(r'<input name="([\w.]+)" value="([^"]*)"', text))


def test_who_does_not_decide_looks_only(there: World) -> None:
    made = asked(there)
    client = signed_in(there.admin)
    text = client.get(f"{INBOX}/{made.pk}").content.decode()
    assert "Reviewed by an admin of the parent tenant." in text
    assert client.post(f"{INBOX}/{made.pk}", {"do": "approve"}).status_code == 403
    assert signed_in(there.outsider).get(f"{INBOX}/{made.pk}").status_code == 404


def test_taking_it_back_and_declining(there: World, anna: User) -> None:
    client, made = signed_in(there.editor), asked(there)
    client.post(ASK, {"do": "withdraw", "request": str(made.pk)})
    made.refresh_from_db()
    assert made.state == RequestState.WITHDRAWN
    other = asked(there)
    offer = [{"cluster": "sim", "flavor": "a100", "resource": "gpu.cards", "nominal": 9}]
    quota_request_counter(acting_user=anna, request=other, offer=offer)
    client.post(ASK, {"do": "decline", "request": str(other.pk)})
    other.refresh_from_db()
    assert other.state == RequestState.DECLINED
    assert client.post(ASK, {"do": "dance", "request": str(other.pk)}).status_code == 404
    assert client.post(ASK, {"do": "accept", "request": "x"}).status_code == 404


def test_lending_and_ending(there: World, anna: User) -> None:
    client = signed_in(anna)
    until = (clock.now() + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")
    sent = {
        "lender": "team-b/default",
        "borrower": " team-a/default",
        "pool": str(there.flavor.pk),
        "gpus": "3",
        "ends_at": until,
    }
    refused = client.post("/ops/loans", {**sent, "gpus": "9"})
    assert refused.status_code == 400 and "has 8 GPUs of a100 unassigned" in refused.content.decode()
    for typed in ("team-b/other", "nobody", "Team B", "team-b (elsewhere)", "team-b/default/x", "("):
        unknown = client.post("/ops/loans", {**sent, "lender": typed})
        assert unknown.status_code == 400 and "not found" in unknown.content.decode()
    wrong = client.post("/ops/loans", {**sent, "ends_at": "2020-01-01T00:00"})
    assert "End time must be after start time." in wrong.content.decode()
    done = client.post("/ops/loans", sent, follow=True).content.decode()
    assert "Team B / default → Team A / default" in done
    assert "a100 · 3 GPUs, GPU memory 120 GiB" in done and "Compute: 3 GPUs" not in done
    assert "End this transfer?" in done and "Cancel this transfer?" not in done
    loan = Override.unscoped.get()
    assert {row.resource: row.amount for row in loan.amounts.all()} == {
        "gpu.cards": 3, "gpu.cores": 300, "gpu.memory": 3 * 40960,
    }  # fmt: skip
    moved = {"do": "move", "request": str(loan.pk), "ends_at": "2999-01-01T00:00"}
    assert "Maximum duration is one year" in post(client, "/ops/loans", **moved)
    sooner = f"{loan.ends_at - timedelta(minutes=30):%Y-%m-%dT%H:%M}"
    assert "End time updated" in post(client, "/ops/loans", **moved | {"ends_at": sooner})
    late = post(client, "/ops/loans", **moved | {"ends_at": sooner, "version": "0"})
    assert f"Current end time: {sooner.replace('T', ' ')} UTC." in late
    post(client, "/ops/loans", do="end", request=str(loan.pk))
    loan.refresh_from_db()
    assert loan.state == OverrideState.ENDED
    later = (clock.now() + timedelta(hours=12)).strftime("%Y-%m-%dT%H:%M")
    planned = client.post("/ops/loans", {**sent, "starts_at": later}, follow=True).content.decode()
    assert "Cancel this transfer?" in planned and "Keep transfer" in planned
    assert "End this transfer?" not in planned, "no quota of it could return"


def test_quotas_are_found_by_any_of_their_names(there: World, anna: User) -> None:
    def found(who: User, text: str) -> list[tuple[str, str]]:
        items = signed_in(who).get("/quota-names", {"q": text}).json()["items"]
        return [(item["value"], item["note"]) for item in items]

    queue = ("team-b/default", "Team B / default")
    assert found(anna, "eam-B") == found(anna, "eam B") == [("team-b", "Team B"), queue]
    assert found(anna, "def") == [("team-a/default", "Team A / default"), queue]
    assert found(there.viewer, "team") == [("team-a", "Team A"), ("team-a/default", "Team A / default")]
    assert found(tenancy.user("nobody"), "") == []
    assert found(anna, "\0") and found(anna, "%") == []

    quotas.quota_node(clusters.cell("elsewhere"), there.workspace)
    both = [(f"team-a ({cell})", "Team A") for cell in (there.cell.name, "elsewhere")]
    assert sorted(found(anna, "team-a")[:2]) == sorted(both)
    sent = {"lender": "team-a", "borrower": "team-b", "pool": str(there.flavor.pk), "gpus": "1"}
    text = signed_in(anna).post("/ops/loans", sent).content.decode()
    assert f"Specify one of: {', '.join(sorted(name for name, _note in both))}." in text
    assert "not found" not in text


def test_budgets_are_set_changed_and_deleted_from_above(there: World, anna: User) -> None:
    client = signed_in(anna)
    sent = {"do": "set", "tenant": str(there.workspace.pk), "flavor": "", "gpu_hours": "100"}
    sent |= {"action": "hold", "thresholds": "50, 80"}
    assert client.post("/ops/budgets", {**sent, "thresholds": "x"}).status_code == 400
    text = client.post("/ops/budgets", sent, follow=True).content.decode()
    assert "0 of 100" in text and "GPU-hours, 0 %" in text
    assert "A budget already exists." in client.post("/ops/budgets", sent).content.decode()
    made = Budget.unscoped.get()
    change = {"row": str(made.pk), "version": str(made.version), **sent, "gpu_hours": "7"}
    opened = client.get(f"/ops/budgets?edit={made.pk}").content.decode()
    assert 'value="100"' in opened and "Budget of Team A: All pools" in opened
    wrong = client.post("/ops/budgets", change | {"do": "change", "thresholds": "x"})
    assert wrong.status_code == 400 and "Enter comma-separated whole numbers" in wrong.content.decode()
    client.post("/ops/budgets?pageSize=50", change | {"do": "change"})
    made.refresh_from_db()
    assert (made.gpu_hours, made.thresholds) == (7, [50, 80])
    own = signed_in(there.admin).get("/ops/budgets").content.decode()
    assert "Team A" in own and "Create budget" not in own and "edit=" not in own
    for form in ("new", made.pk):
        assert signed_in(there.admin).get(f"/ops/budgets?edit={form}").status_code == 403
    assert "0 of 7" in signed_in(there.viewer).get("/w/team-a/limits").content.decode()
    assert "Current: 7 GPU-hours per month" in post(client, "/ops/budgets", **change | {"do": "change"})
    asked = {"do": "action", "item": str(made.pk), "choice": "warn", "confirmed": "1"}
    assert client.post("/ops/budgets", asked).status_code == 302
    made.refresh_from_db()
    assert made.action == "warn"
    question = client.post("/ops/budgets", {"one": f"delete {made.pk}"}).content.decode()
    assert "Metered usage is kept" in question and Budget.unscoped.exists()
    ask_batch(client, "/ops/budgets", "delete", made.pk)
    assert not Budget.unscoped.exists()


def test_limits_of_users_on_the_workspaces_page(there: World) -> None:
    client = signed_in(there.admin)
    url = "/w/team-a/limits"
    assert (
        "Not a member of this tenant"
        in client.post(url, {"user": "nobody", "resource": "gpu.cards", "amount": "4"}).content.decode()
    )
    sent = {"user": "ed", "resource": "gpu.cards", "amount": "4"}
    text = client.post(url, sent, follow=True).content.decode()
    assert "4 GPUs" in text and ">ed<" in text
    assert "5 GPUs" in client.post(url, {**sent, "amount": "5"}, follow=True).content.decode()
    limit = UserLimit.unscoped.get()
    assert "Create limit" not in signed_in(there.viewer).get(url).content.decode()
    post(client, url, do="delete", request=str(limit.pk))
    assert not UserLimit.unscoped.exists()


def test_the_form_says_who_decides_and_names_admins_in_sight_only(there: World, anna: User) -> None:
    text = signed_in(there.editor).get("/w/team-a/requests").content.decode()
    assert "Requests are decided by parent admins." in text and anna.username not in text
    text = signed_in(anna).get("/w/team-a/requests").content.decode()
    assert f"Requests are decided by admins of Root ({anna.username})." in text


def test_the_form_of_a_queue_says_who_decides_about_its_limits(there: World, anna: User) -> None:
    """Borrowing and lending limits of a queue are decided above its workspace, as the sent request says."""
    tenancy.user("ada", there.workspace, Role.ADMIN)
    page = f"{ASK}?node={there.queue.node_id}"
    above = "by parent admins if they change a borrowing or lending limit."
    text = signed_in(there.editor).get(page).content.decode()
    names = ", ".join(list_admins(viewer=there.editor, tenants=[there.workspace.pk])[there.workspace.pk])
    assert f"Requests are decided by admins of {there.workspace.name} ({names}); {above}" in text
    assert "ada" in names and anna.username not in text
    text = signed_in(anna).get(page).content.decode()
    assert f"by admins of Root ({anna.username}) if they change a borrowing or lending limit." in text
    assert "borrowing or lending limit." not in signed_in(anna).get(ASK).content.decode(), "one decides all"


def test_pages_need_a_fixed_number_of_queries(there: World, anna: User) -> None:
    budgets = {"/w/team-a/requests": 45, "/ops/requests?state=all": 25, "/w/team-a/limits": 25}
    for url, most in budgets.items():
        who = there.editor if url.startswith("/w/") else anna
        client = signed_in(who)
        client.get(url)
        with CaptureQueriesContext(connection) as found:
            assert client.get(url).status_code == 200
        assert len(found) <= most, (url, len(found))


def test_who_decides_sees_how_many_requests_wait(there: World, anna: User) -> None:
    count = '<span class="side-count">1</span>'
    assert count not in signed_in(anna).get("/ops/quotas").content.decode()
    asked(there)
    decider = signed_in(anna).get("/ops/quotas").content.decode()
    assert count in decider
    # A user without rights on clusters gets no links to their pages.
    assert 'href="/ops/nodes"' not in decider and 'href="/ops/loans"' in decider
    assert 'href="/ops/quotas"' in signed_in(anna).get("/w/team-a/overview").content.decode()
    assert count not in signed_in(there.admin).get("/ops/quotas").content.decode()
    assert 'href="/ops/quotas"' not in signed_in(there.viewer).get("/w/team-a/overview").content.decode()
