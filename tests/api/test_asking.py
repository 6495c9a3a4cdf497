"""Requests, loans, budgets and limits of users over the API, and invalid input for them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Final

import pytest
from rest_framework.test import APIClient

from foundation.core import clock
from foundation.core.months import month_of, starts_at
from foundation.core.quantities import Resource
from foundation.models import AuditRecord, Hint, IdempotencyKey
from quotas.models import (
    Budget,
    LedgerEntry,
    Override,
    Quota,
    QuotaKey,
    QuotaRequest,
    QuotaRevision,
    UserLimit,
)
from quotas.services.ledger import ledger_reserve
from tenants.models import Role, User
from tests.api.conftest import As
from tests.builders import quotas, tenancy
from tests.builders.world import World

TEAM: Final = "/api/v1/workspaces/team-a"
ASK: Final = f"{TEAM}/quota-requests"
INBOX: Final = "/api/v1/admin/quota-requests"
LOANS: Final = "/api/v1/admin/overrides"
BUDGETS: Final = "/api/v1/admin/budgets"
LIMITS: Final = f"{TEAM}/user-limits"
CARDS: Final = {"flavor": "a100", "resource": "gpu.cards"}


@pytest.fixture
def anna(w: World) -> User:
    """Return the admin of the folder above, which keeps 10 cards for itself."""
    root = quotas.quota_node(w.cell, tenancy.root())
    Quota.unscoped.filter(node=root, resource=Resource.GPU_CARDS.value).update(own_nominal=10)
    return tenancy.user("anna", tenancy.root(), Role.ADMIN)


def ask(client: APIClient, nominal: int = 12, **more: Any) -> Any:
    body = {"amounts": [{**CARDS, "nominal": nominal}], "reason": "a paper is due", **more}
    return client.post(ASK, body, format="json")


def loan(w: World, **more: Any) -> dict[str, Any]:
    return {
        "lender": str(w.other_queue.node_id),
        "borrower": str(w.queue.node_id),
        "amounts": [{**CARDS, "amount": 3}],
        "ends_at": (clock.now() + timedelta(hours=2)).isoformat(),
    } | more


def test_a_request_goes_from_asking_to_being_given(w: World, anna: User, as_user: As) -> None:
    asker, decider = as_user(w.editor), as_user(anna)
    made = ask(asker)
    assert made.status_code == 201
    body = made.json()
    assert (body["state"], body["by"], body["queue"]) == ("pending", "ed", "")
    assert body["current"][0]["nominal"] == 8
    assert body["evidence"]["use"] == {"missing": "nothing-held"}
    assert made["Location"] == f"{ASK}/{body['id']}"
    assert asker.get(made["Location"])["ETag"] == made["ETag"] == f'"{body["version"]}"'
    assert ask(asker).json()["code"] == "REQUEST_OPEN"

    (listed,) = decider.get(INBOX, {"state": "pending"}).json()["items"]
    assert (listed["id"], listed["may_decide"]) == (body["id"], True)
    assert as_user(w.admin).get(INBOX).json()["items"][0]["may_decide"] is False

    one = f"{INBOX}/{body['id']}"
    previewed = decider.post(f"{one}/approve?dry_run=true", {}, format="json")
    assert previewed.json()["changes"][0]["after"]["nominal"] == 12
    assert asker.get(made["Location"]).json()["state"] == "pending"
    stale = decider.post(f"{one}/approve", {}, format="json", headers={"If-Match": '"99"'})
    assert stale.status_code == 412
    given = decider.post(
        f"{one}/approve", {"answer": "ok"}, format="json", headers={"If-Match": made["ETag"]}
    )
    assert given.status_code == 200, given.json()
    assert (given.json()["state"], given.json()["decided_by"]) == ("approved", "anna")
    again = decider.post(f"{one}/reject", {"answer": "no"}, format="json")
    assert (again.status_code, again.json()["code"]) == (409, "REQUEST_NOT_PENDING")
    lines = asker.get(f"/api/v1/admin/quotas/{body['node']}").json()["quotas"]
    assert [line["nominal"] for line in lines if line["resource"] == "gpu.cards"] == [12]


def test_more_than_there_is_is_refused_with_the_sums(w: World, anna: User, as_user: As) -> None:
    made = ask(as_user(w.editor), 19).json()
    refused = as_user(anna).post(f"{INBOX}/{made['id']}/approve", {}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (422, "QUOTA_EXCEEDS_PARENT")
    assert "Root has 26 GPUs" in refused.json()["detail"]


def test_an_offer_is_answered_by_the_asker(w: World, anna: User, as_user: As) -> None:
    asker, decider = as_user(w.editor), as_user(anna)
    made = ask(asker).json()
    offer = {"offer": [{**CARDS, "nominal": 9}], "answer": "one"}
    offered = decider.post(f"{INBOX}/{made['id']}/counter", offer, format="json")
    assert (offered.status_code, offered.json()["state"]) == (200, "countered")
    assert as_user(w.admin).post(f"{ASK}/{made['id']}/accept").status_code == 403
    accepted = asker.post(f"{ASK}/{made['id']}/accept")
    assert (accepted.status_code, accepted.json()["state"]) == (200, "approved")
    assert asker.post(f"{ASK}/{made['id']}/withdraw").status_code == 409
    other = ask(asker).json()
    decider.post(f"{INBOX}/{other['id']}/counter", {"offer": [{**CARDS, "nominal": 10}]}, format="json")
    assert asker.post(f"{ASK}/{other['id']}/decline").json()["state"] == "declined"
    third = ask(asker).json()
    assert asker.post(f"{ASK}/{third['id']}/withdraw").json()["state"] == "withdrawn"


def test_asking_twice_with_one_key_asks_once_and_a_dry_run_never(w: World, as_user: As) -> None:
    asker = as_user(w.editor)
    body = {"amounts": [{**CARDS, "nominal": 12}], "reason": "more"}
    assert asker.post(f"{ASK}?dry_run=true", body, format="json").status_code == 201
    assert not QuotaRequest.unscoped.exists()
    answers = [
        asker.post(ASK, body, format="json", headers={"Idempotency-Key": "one"}).json()["id"]
        for _ in range(3)
    ]
    assert len(set(answers)) == 1
    assert QuotaRequest.unscoped.count() == 1


def test_others_see_nothing_of_a_request(w: World, as_user: As) -> None:
    made = ask(as_user(w.editor)).json()
    outsider = as_user(w.outsider)
    assert outsider.get(INBOX).json()["items"] == []
    assert outsider.get(f"{INBOX}/{made['id']}").status_code == 404
    assert outsider.post(f"{INBOX}/{made['id']}/approve").status_code == 404
    below_own = f"/api/v1/workspaces/team-b/quota-requests/{made['id']}"
    assert outsider.get(below_own).status_code == 404


def test_the_admin_of_a_folder_asks_for_it(w: World, as_user: As) -> None:
    labs = tenancy.folder("labs")
    node = quotas.quota_node(w.cell, labs)
    lea = tenancy.user("lea", labs, Role.ADMIN)
    Quota.unscoped.filter(node__tenant=tenancy.root(), resource=Resource.GPU_CARDS.value).update(
        own_nominal=10
    )
    asker, decider = as_user(lea), as_user(w.platform_admin)
    body = {"node": str(node.pk), "amounts": [{**CARDS, "nominal": 4}], "reason": "a new team"}

    assert as_user(w.admin).post(INBOX, body, format="json").status_code == 404
    unknown = asker.post(INBOX, {**body, "queue": "default"}, format="json")
    assert unknown.json()["errors"][0]["field"] == "queue"
    key = {"Idempotency-Key": "one"}
    made, again = (asker.post(INBOX, body, format="json", headers=key) for _ in range(2))
    assert (made.status_code, made.json()["tenant"]) == (201, "labs"), made.json()
    assert again.json()["id"] == made.json()["id"]
    one = f"{INBOX}/{made.json()['id']}"
    assert made["Location"] == one and made["ETag"] == asker.get(one)["ETag"]
    offer = {"offer": [{**CARDS, "nominal": 3}]}
    assert decider.post(f"{one}/counter", offer, format="json").status_code == 200
    assert as_user(w.platform_admin).post(f"{one}/accept").status_code == 403
    assert asker.post(f"{one}/accept").json()["state"] == "approved"
    lines = asker.get(f"/api/v1/admin/quotas/{node.pk}").json()["quotas"]
    assert [line["nominal"] for line in lines if line["resource"] == "gpu.cards"] == [3]
    for verb, state in (("withdraw", "withdrawn"), ("decline", "declined")):
        next_one = asker.post(INBOX, {**body, "amounts": [{**CARDS, "nominal": 5}]}, format="json").json()
        if verb == "decline":
            decider.post(f"{INBOX}/{next_one['id']}/counter", {"offer": [{**CARDS, "nominal": 4}]})
        assert asker.post(f"{INBOX}/{next_one['id']}/{verb}").json()["state"] == state


def test_a_loan_over_the_api(w: World, anna: User, as_user: As) -> None:
    client = as_user(anna)
    made = client.post(LOANS, loan(w), format="json")
    assert made.status_code == 201, made.json()
    body = made.json()
    assert (body["state"], body["lender"]["tenant"], body["borrower"]["queue"]) == (
        "active", "team-b", "default",
    )  # fmt: skip
    assert Quota.unscoped.get(node=w.queue.node, resource="gpu.cards").own_nominal == 11
    assert as_user(w.viewer).get(made["Location"]).status_code == 200
    # The admin of one side only does not even see the other.
    assert as_user(w.admin).post(LOANS, loan(w), format="json").status_code == 404
    assert as_user(w.admin).post(f"{made['Location']}/end").status_code in (403, 404)
    ended = client.post(f"{made['Location']}/end")
    assert (ended.status_code, ended.json()["state"]) == (200, "ended")
    assert client.post(f"{made['Location']}/end").json()["code"] == "LOAN_CLOSED"
    assert Quota.unscoped.get(node=w.queue.node, resource="gpu.cards").own_nominal == 8
    short = client.post(LOANS, loan(w, amounts=[{**CARDS, "amount": 9}]), format="json")
    assert (short.status_code, short.json()["code"]) == (422, "LOAN_EXCEEDS_LENDER")


def test_the_end_of_a_loan_is_moved(w: World, anna: User, as_user: As) -> None:
    client, now = as_user(anna), clock.now()

    def at(hours: int) -> str:
        return (now + timedelta(hours=hours)).isoformat()

    made = client.post(LOANS, loan(w), format="json")
    url, seen = made["Location"], made["ETag"]
    # Another loan needs the amount that returns in four hours.
    later = client.post(
        LOANS, loan(w, amounts=[{**CARDS, "amount": 7}], starts_at=at(4), ends_at=at(6)), format="json"
    )
    assert later.status_code == 201, later.json()
    assert client.patch(url, {"ends_at": at(3)}, format="json").status_code == 428
    denied = as_user(w.admin).patch(url, {"ends_at": at(3)}, format="json", headers={"If-Match": seen})
    assert denied.status_code in (403, 404)
    for wrong in (at(-1), at(24 * 400), "soon"):
        refused = client.patch(url, {"ends_at": wrong}, format="json", headers={"If-Match": seen})
        assert refused.status_code == 400 and refused.json()["errors"][0]["field"] == "ends_at"
    short = client.patch(url, {"ends_at": at(5)}, format="json", headers={"If-Match": seen})
    assert (short.status_code, short.json()["code"]) == (422, "LOAN_EXCEEDS_LENDER")
    moved = client.patch(url, {"ends_at": at(4)}, format="json", headers={"If-Match": seen})
    assert moved.status_code == 200, moved.json()
    assert Override.unscoped.get(pk=made.json()["id"]).ends_at == now + timedelta(hours=4)
    noted = AuditRecord.unscoped.filter(action="loan.move-end").first()
    assert noted is not None and noted.after == {"ends_at": at(4)} and noted.before["ends_at"] < at(4)
    sooner = client.patch(url, {"ends_at": at(1)}, format="json", headers={"If-Match": moved["ETag"]})
    assert sooner.status_code == 200
    client.post(f"{url}/end")
    closed = client.patch(url, {"ends_at": at(3)}, format="json", headers={"If-Match": "*"})
    assert closed.json()["code"] == "LOAN_CLOSED"


def test_a_budget_over_the_api(w: World, anna: User, as_user: As) -> None:
    client = as_user(anna)
    body = {"tenant": "team-a", "flavor": "a100", "gpu_hours": 100, "action": "hold", "thresholds": [50]}
    made = client.post(BUDGETS, body, format="json")
    assert made.status_code == 201, made.json()
    assert (made.json()["state"], made.json()["used_gpu_hours"]) == ("ok", 0)
    assert client.post(BUDGETS, body, format="json").json()["code"] == "BUDGET_EXISTS"
    mine = as_user(w.viewer).get(f"{TEAM}/budget").json()
    assert [row["gpu_hours"] for row in mine["items"]] == [100]
    assert as_user(w.outsider).get(BUDGETS).json()["items"] == []
    url = made["Location"]
    assert client.patch(url, {"gpu_hours": 5}, format="json").status_code == 428
    headers = {"If-Match": made["ETag"]}
    assert as_user(w.admin).patch(url, {"gpu_hours": 5}, format="json", headers=headers).status_code == 403
    changed = client.patch(url, {"gpu_hours": 0}, format="json", headers=headers)
    assert (changed.status_code, changed.json()["state"]) == (200, "exhausted")
    assert client.delete(url, headers=headers).status_code == 412
    assert client.delete(url, headers={"If-Match": changed["ETag"]}).status_code == 204
    assert as_user(w.viewer).get(f"{TEAM}/usage").json()["items"] == []


def test_the_budget_of_a_folder_sums_what_no_workspace_sees_of_the_others(
    w: World, anna: User, as_user: As
) -> None:
    now = clock.now()
    for queue in (w.queue, w.other_queue):
        key = QuotaKey(queue.node_id, w.flavor.pk, "gpu.cores")
        ledger_reserve({key: 100}, now=now)
    month_s = (now - starts_at(month_of(now))).total_seconds()
    LedgerEntry.unscoped.filter(resource="gpu.cores").update(core_ms=36_000_000 - int(month_s * 1000) * 100)
    Budget.unscoped.create(tenant=tenancy.root(), gpu_hours=10, action="hold")
    (row,) = as_user(w.viewer).get(f"{TEAM}/budget").json()["items"]
    assert (row["tenant"], row["gpu_hours"]) == ("root", 10)
    # A tenth of an hour each, and the hours that passed since.
    assert 0.2 <= row["used_gpu_hours"] < 0.3
    (own,) = as_user(w.viewer).get(f"{TEAM}/usage").json()["items"]
    assert 0.1 <= own["gpu_hours"] < 0.15


def test_a_limit_of_users_over_the_api(w: World, as_user: As) -> None:
    client = as_user(w.admin)
    made = client.post(LIMITS, {"resource": "gpu.cards", "amount": 4, "user": "ed"}, format="json")
    assert (made.status_code, made.json()["user"]) == (201, "ed")
    every = client.post(LIMITS, {"resource": "gpu.cards", "amount": 2}, format="json")
    assert (every.status_code, every.json()["user"]) == (201, None)
    assert [row["user"] for row in as_user(w.viewer).get(LIMITS).json()["items"]] == [None, "ed"]
    url = made["Location"]
    assert client.patch(url, {"amount": 5}, format="json").status_code == 428
    changed = client.patch(url, {"amount": None}, format="json", headers={"If-Match": made["ETag"]})
    assert changed.json()["amount"] is None
    assert client.delete(url, headers={"If-Match": made["ETag"]}).status_code == 412
    assert client.delete(url, headers={"If-Match": changed["ETag"]}).status_code == 204


# Invalid input


def wanted(**values: Any) -> dict[str, Any]:
    return {"amounts": [{**CARDS, "nominal": 12} | values], "reason": "more"}


def lent(**values: Any) -> dict[str, Any]:
    return {"amounts": [{**CARDS, "amount": 1} | values]}


PAST: Final = "2020-01-01T00:00:00Z"
GOOD_ASK: Final = wanted()
GOOD_BUDGET: Final = {"tenant": "team-a", "gpu_hours": 10}
GOOD_LIMIT: Final = {"resource": "gpu.cards", "amount": 4}
ASK_ROWS: Final[list[tuple[dict[str, Any], str]]] = [
    ({"amounts": []}, "amounts.non_field_errors"),
    ({"amounts": "all"}, "amounts.non_field_errors"),
    ({"amounts": [7]}, "amounts.0.non_field_errors"),
    (wanted(nominal=-1), "amounts.0.nominal"),
    (wanted(nominal=1e30), "amounts.0.nominal"),
    (wanted(nominal=10**30), "amounts.0.nominal"),
    (wanted(nominal=8), "amounts.0.nominal"),
    (wanted(nominal="many"), "amounts.0.nominal"),
    (wanted(nominal=1.5), "amounts.0.nominal"),
    (wanted(flavor="h100"), "amounts.0.flavor"),
    (wanted(cluster="moon"), "amounts.0.flavor"),
    (wanted(resource="gold"), "amounts.0.resource"),
    (wanted(colour="red"), "amounts.0.colour"),
    ({"amounts": [{**CARDS}]}, "amounts.0.nominal"),
    ({"amounts": [{**CARDS, "nominal": 12}, {**CARDS, "nominal": 13}]}, "amounts.1.nominal"),
    ({"amounts": [{**CARDS, "nominal": 12}] * 101}, "amounts"),
    ({"reason": ""}, "reason"),
    ({"reason": "x" * 2001}, "reason"),
    ({"reason": "a\u0000b"}, "reason"),
    ({"reason": None}, "reason"),
    ({"queue": "nowhere"}, "queue"),
    ({"cell": "nowhere"}, "queue"),
    ({"until": PAST}, "until"),
    ({"until": "soon"}, "until"),
    ({"expires_at": PAST}, "expires_at"),
    ({"expires_at": "9999-12-31T23:59:59Z"}, "expires_at"),
    ({"state": "approved"}, "state"),
]
LOAN_ROWS: Final[list[tuple[dict[str, Any], str]]] = [
    ({"ends_at": PAST}, "ends_at"),
    ({"ends_at": None}, "ends_at"),
    ({"starts_at": "2999-01-02T00:00:00Z", "ends_at": "2999-01-01T00:00:00Z"}, "ends_at"),
    ({"starts_at": "2999-01-01T00:00:00Z", "ends_at": "2999-01-01T00:00:00Z"}, "ends_at"),
    ({"ends_at": "9999-12-31T23:59:59Z"}, "ends_at"),
    ({"lender": "somebody"}, "lender"),
    (lent(amount=0), "amounts.0.amount"),
    (lent(amount=-3), "amounts.0.amount"),
    (lent(amount=1e30), "amounts.0.amount"),
    (lent(amount=None), "amounts.0.amount"),
    (lent(amount=9), "amounts.0.amount"),
    (lent(colour="red"), "amounts.0.colour"),
    (lent(flavor="h100"), "amounts.0.flavor"),
    ({"amounts": [{**CARDS, "amount": 1}, {**CARDS, "amount": 2}]}, "amounts.1.amount"),
    ({"amounts": []}, "amounts.non_field_errors"),
    ({"reason": "x" * 501}, "reason"),
    ({"colour": "red"}, "colour"),
]
BUDGET_ROWS: Final[list[tuple[dict[str, Any], str]]] = [
    ({"gpu_hours": -1}, "gpu_hours"),
    ({"gpu_hours": 1e30}, "gpu_hours"),
    ({"gpu_hours": None}, "gpu_hours"),
    ({"action": "explode"}, "action"),
    ({"thresholds": [0]}, "thresholds.0"),
    ({"thresholds": [101]}, "thresholds.0"),
    ({"thresholds": [50, 50]}, "thresholds"),
    ({"thresholds": [1, 2, 3, 4, 5, 6]}, "thresholds"),
    ({"thresholds": "80"}, "thresholds"),
    ({"flavor": "h100"}, "flavor"),
    ({"cluster": "moon", "flavor": "a100"}, "flavor"),
    ({"used_gpu_hours": 0}, "used_gpu_hours"),
]
LIMIT_ROWS: Final[list[tuple[dict[str, Any], str]]] = [
    ({"amount": -1}, "amount"),
    ({"amount": 1e30}, "amount"),
    ({"amount": None}, "amount"),
    ({"amount": "four"}, "amount"),
    ({"resource": "gold"}, "resource"),
    ({"resource": None}, "resource"),
    ({"user": "nobody"}, "user"),
    ({"user": "otto"}, "user"),
    ({"user": "a\u0000b"}, "user"),
    ({"workspace": "team-b"}, "workspace"),
]


def kept() -> list[Any]:
    """Return what a refused request may not change: rows and amounts, without records of denials."""
    models = (QuotaRequest, Override, Budget, UserLimit, QuotaRevision, Hint, IdempotencyKey)
    amounts = list(Quota.unscoped.order_by("pk").values_list("pk", "own_nominal"))
    return [*(model._base_manager.count() for model in models), amounts, audited()]


def audited() -> int:
    return AuditRecord.unscoped.exclude(result="denied").count()


def refused(client: APIClient, path: str, body: Any, field: str) -> None:
    before = kept()
    headers = {"Idempotency-Key": "bad"}
    answer = client.generic("POST", path, json.dumps(body), content_type="application/json", headers=headers)
    problem = answer.json()
    assert answer.status_code in (400, 409, 422), problem
    assert answer["Content-Type"] == "application/problem+json"
    assert field in {error["field"] for error in problem["errors"]}, problem
    assert all(error["code"] and error["message"] for error in problem["errors"])
    assert kept() == before


def test_requests_that_cannot_be(w: World, as_user: As) -> None:
    for change, field in ASK_ROWS:
        refused(as_user(w.editor), ASK, GOOD_ASK | change, field)
    assert as_user(w.editor).post(ASK, GOOD_ASK, format="json").status_code == 201


def test_loans_that_cannot_be(w: World, as_user: As) -> None:
    client = as_user(w.platform_admin)
    for change, field in LOAN_ROWS:
        refused(client, LOANS, loan(w) | change, field)
    refused(client, LOANS, loan(w, borrower=str(w.other_queue.node_id)), "borrower")
    assert client.post(LOANS, loan(w), format="json").status_code == 201


def test_budgets_that_cannot_be(w: World, as_user: As) -> None:
    for change, field in BUDGET_ROWS:
        refused(as_user(w.platform_admin), BUDGETS, GOOD_BUDGET | change, field)
    assert as_user(w.platform_admin).post(BUDGETS, GOOD_BUDGET, format="json").status_code == 201
    refused(as_user(w.platform_admin), BUDGETS, GOOD_BUDGET, "flavor")


def test_limits_that_cannot_be(w: World, as_user: As) -> None:
    for change, field in LIMIT_ROWS:
        refused(as_user(w.admin), LIMITS, GOOD_LIMIT | change, field)
    assert as_user(w.admin).post(LIMITS, GOOD_LIMIT, format="json").status_code == 201
    refused(as_user(w.admin), LIMITS, GOOD_LIMIT, "resource")


@pytest.mark.parametrize("how", [{}, {"HTTP_IDEMPOTENCY_KEY": "once"}])
def test_that_an_offer_is_gone_is_kept_for_who_made_it(
    w: World, anna: User, as_user: As, how: dict[str, str]
) -> None:
    asker, decider = as_user(w.editor), as_user(anna)
    place = f"{ASK}/{ask(asker).json()['id']}"
    offer = {"offer": [{**CARDS, "nominal": 15}]}
    inbox = f"{INBOX}/{place.rsplit('/', 1)[1]}"
    assert decider.post(f"{inbox}/counter", offer, format="json").status_code == 200
    Quota.unscoped.filter(node__tenant__parent=None).update(own_nominal=0)

    for _ in range(2):
        answer = asker.post(f"{place}/accept", **how)
        assert (answer.status_code, answer.json()["code"]) == (422, "OFFER_GONE")
    asker.post(f"{place}/accept?dry_run=true")

    told = AuditRecord.unscoped.filter(action="quota-request.offer-gone")
    assert [(row.tenant_id, row.actor_name) for row in told] == [(tenancy.root().pk, "ed")] * 2
    assert not IdempotencyKey.unscoped.exists()
