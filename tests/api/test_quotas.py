"""Administration of quotas over the API."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from foundation.core.quantities import Resource
from foundation.models import AuditRecord
from quotas.models import Quota, QuotaRevision
from tenants.models import Role, User
from tests.api.conftest import As
from tests.builders import quotas, tenancy
from tests.builders.world import World

CARDS = {"flavor": "a100", "resource": "gpu.cards"}


@pytest.fixture
def anna(w: World) -> User:
    """The admin of the folder above the workspaces; the folder keeps 10 cards."""
    root = quotas.quota_node(w.cell, tenancy.root())
    Quota.unscoped.filter(node=root, resource=Resource.GPU_CARDS).update(own_nominal=10)
    return tenancy.user("anna", tenancy.root(), Role.ADMIN)


@pytest.fixture
def at(w: World) -> str:
    """The workspace's node."""
    return f"/api/v1/admin/quotas/{quotas.quota_node(w.cell, w.workspace).pk}"


def change(client: APIClient, at: str, *, query: str = "", version: str = "*", **body: Any) -> Any:
    return client.patch(f"{at}{query}", body, headers={"If-Match": version})


def test_a_node_shows_its_own_and_its_distributed_quota(w: World, at: str, anna: User, as_user: As) -> None:
    answer = as_user(anna).get(at)
    line = next(line for line in answer.json()["quotas"] if line["resource"] == "gpu.cards")
    assert {key: line[key] for key in ("nominal", "own_nominal", "distributed", "reserved")} == {
        "nominal": 8, "own_nominal": 0, "distributed": 8, "reserved": 0,
    }  # fmt: skip
    assert answer.headers["ETag"] == '"0"'


def test_a_change_needs_the_version_that_was_read(w: World, at: str, anna: User, as_user: As) -> None:
    client = as_user(anna)
    amounts = [{**CARDS, "nominal": 9}]
    assert client.patch(at, {"amounts": amounts}).status_code == 428
    done = change(client, at, version='"0"', amounts=amounts, reason="one more")
    assert (done.status_code, done.headers["ETag"]) == (200, '"1"')
    stale = change(client, at, version='"0"', amounts=amounts)
    assert (stale.status_code, stale.json()["code"]) == (412, "PRECONDITION_FAILED")


def test_too_much_is_refused_with_the_sums_in_the_readers_language(
    w: World, at: str, anna: User, as_user: As
) -> None:
    client = as_user(anna)
    body = {"amounts": [{**CARDS, "nominal": 19}]}
    answer = client.patch(at, body, headers={"If-Match": "*", "Accept-Language": "zh-hans"})
    assert (answer.status_code, answer.json()["code"]) == (422, "QUOTA_EXCEEDS_PARENT")
    assert answer.json()["detail"] == (
        "配额不足：Root 的下级将共有 a100 27 张 GPU，而 Root 只有 26 张 GPU"
        "（Team A 19 张 GPU，Team B 8 张 GPU）。"
    )
    assert answer.json()["errors"][0]["field"] == "amounts.0.nominal"
    assert not QuotaRevision.unscoped.exists()


def test_a_dry_run_answers_the_effect_and_changes_nothing(w: World, at: str, anna: User, as_user: As) -> None:
    answer = change(as_user(anna), at, query="?dry_run=true", amounts=[{**CARDS, "nominal": 9}])
    body = answer.json()
    assert answer.status_code == 200
    assert body["changes"][0]["node"] == "Team A"
    assert (body["changes"][0]["before"]["nominal"], body["changes"][0]["after"]["nominal"]) == (8, 9)
    assert (body["over_quota"], body["reclaimed"], body["started"]["others"]) == (
        [], {"jobs": [], "others": 0}, 0,
    )  # fmt: skip
    assert not QuotaRevision.unscoped.exists()
    assert not AuditRecord.unscoped.filter(action="quota.set").exists()


BAD = {
    "no amounts": ({"amounts": []}, "amounts.non_field_errors"),
    "nothing": ({}, "amounts"),
    "no flavor": ({"amounts": [{"resource": "cpu"}]}, "amounts.0.flavor"),
    "unknown flavor": ({"amounts": [{"flavor": "h1", "resource": "cpu"}]}, "amounts.0.flavor"),
    "unknown cluster": ({"amounts": [{**CARDS, "cluster": "x"}]}, "amounts.0.flavor"),
    "unknown resource": ({"amounts": [{"flavor": "a100", "resource": "gpu"}]}, "amounts.0.resource"),
    "negative": ({"amounts": [{**CARDS, "nominal": -1}]}, "amounts.0.nominal"),
    "overflow": ({"amounts": [{**CARDS, "nominal": 1e30}]}, "amounts.0.nominal"),
    "too large": ({"amounts": [{**CARDS, "nominal": 2**63}]}, "amounts.0.nominal"),
    "fraction": ({"amounts": [{**CARDS, "nominal": 1.5}]}, "amounts.0.nominal"),
    "word": ({"amounts": [{**CARDS, "nominal": "many"}]}, "amounts.0.nominal"),
    "truth": ({"amounts": [{**CARDS, "nominal": True}]}, "amounts.0.nominal"),
    "list": ({"amounts": [{**CARDS, "borrowing_limit": [1]}]}, "amounts.0.borrowing_limit"),
    "lending": ({"amounts": [{**CARDS, "lending_limit": -5}]}, "amounts.0.lending_limit"),
    "unknown field": ({"amounts": [{**CARDS, "nominal": 8}], "colour": 1}, "colour"),
    "unknown limit": ({"amounts": [{**CARDS, "used": 8}]}, "amounts.0.used"),
    "twice": ({"amounts": [{**CARDS, "nominal": 8}, {**CARDS, "nominal": 8}]}, "amounts.1.nominal"),
    "choice": ({"amounts": [{**CARDS, "nominal": 8}], "shrink": "kill"}, "shrink"),
    "long reason": ({"amounts": [{**CARDS, "nominal": 8}], "reason": "x" * 501}, "reason"),
}


@pytest.mark.parametrize(("body", "field"), BAD.values(), ids=BAD)
def test_bad_input_names_the_field(
    w: World, at: str, anna: User, as_user: As, body: dict[str, Any], field: str
) -> None:
    answer = change(as_user(anna), at, **body)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == field
    assert not QuotaRevision.unscoped.exists()


def test_history_and_revert(w: World, at: str, anna: User, as_user: As) -> None:
    client = as_user(anna)
    change(client, at, amounts=[{**CARDS, "nominal": 9}], reason="by mistake")
    (revision,) = client.get(f"{at}/history").json()["items"]
    assert (revision["by"], revision["reason"], revision["reverted"]) == ("anna", "by mistake", False)
    undo = f"/api/v1/admin/quota-revisions/{revision['id']}/revert"
    assert client.post(f"{undo}?dry_run=true", {}).json()["changes"][0]["after"]["nominal"] == 8
    answer = client.post(undo, {"reason": "it was"})
    assert (answer.status_code, answer.json()["reverts"]) == (201, revision["id"])
    assert client.post(undo, {}).json()["code"] == "QUOTA_CHANGED_SINCE"
    assert as_user(w.outsider).post(undo, {}).status_code == 404


def test_export_edit_compare_import(w: World, anna: User, as_user: As) -> None:
    client = as_user(anna)
    place = "/api/v1/admin/quota-file"
    text = client.get(f"{place}?kind=csv&tenant=team-a").content.decode()
    edited = text.replace("team-a,,,a100,gpu.cards,8", "team-a,,,a100,gpu.cards,11")
    assert edited != text
    compared = client.generic("POST", f"{place}?dry_run=true", edited, content_type="text/csv")
    assert compared.json()["changes"][0]["after"]["nominal"] == 11
    assert not QuotaRevision.unscoped.exists()
    assert client.generic("POST", place, edited, content_type="text/csv").status_code == 200
    assert client.generic("POST", place, edited, content_type="text/csv").json()["changes"] == []
    wrong = client.generic("POST", place, edited.replace("gpu.cards", "gpus"), content_type="text/csv")
    assert wrong.json()["errors"][0]["field"] == "body.csv:4 resource"
    assert client.generic("POST", place, "quotas: {", content_type="application/yaml").status_code == 400


def test_the_number_of_queries_does_not_grow_with_the_tree(
    w: World, at: str, anna: User, as_user: As
) -> None:
    client = as_user(anna)
    with CaptureQueriesContext(
        connection,
    ) as few:
        client.get(at)
    for number in range(5):
        team = tenancy.workspace(f"team-{number}")
        quotas.queue(w.cell, team, [w.flavor], cards=1)
    with CaptureQueriesContext(connection) as many:
        client.get(at)
    assert len(few) == len(many) <= 14
