"""Workspaces, keys, queues and quota over HTTP."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from foundation.core import clock
from foundation.core.quantities import Resource
from tenants.models import AccessKey
from tenants.services.access_key import access_key_create
from tests.api.conftest import As
from tests.builders import jobs, quotas, tenancy
from tests.builders.world import World

WORKSPACE = "/api/v1/workspaces/team-a"


def bearer(token: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def test_me_and_my_workspaces(w: World, as_user: As) -> None:
    client = as_user(w.editor)

    me = client.get("/api/v1/me").json()
    assert me["username"] == "ed"
    assert me["memberships"] == [{"tenant": "team-a", "role": "editor", "group": None}]
    assert me["platform_permissions"] == []
    workspaces = client.get("/api/v1/workspaces").json()
    assert [item["slug"] for item in workspaces["items"]] == ["team-a"]
    assert "job.submit" in client.get(WORKSPACE).json()["permissions"]


def test_a_key_signs_in_until_it_is_revoked(w: World, as_user: As) -> None:
    client = as_user(w.editor)
    made = client.post(f"{WORKSPACE}/keys", {"name": "laptop"})
    body = made.json()

    assert made.status_code == 201
    assert made["Location"] == f"{WORKSPACE}/keys/{body['prefix']}"
    holder = bearer(body["token"])
    assert holder.get("/api/v1/me").json()["username"] == "ed"
    listed = client.get(f"{WORKSPACE}/keys").json()["items"]
    assert [item["name"] for item in listed] == ["laptop"] and "token" not in listed[0]

    assert client.delete(made["Location"]).status_code == 204
    assert holder.get("/api/v1/me").status_code == 401


def test_a_wrong_or_expired_key_is_refused(w: World) -> None:
    token = tenancy.access_key(w.editor)
    assert bearer(token + "x").get("/api/v1/me").status_code == 401
    AccessKey.unscoped.update(expires_at=clock.now() - timedelta(seconds=1))

    answer = bearer(token).get("/api/v1/me")

    assert answer.status_code == 401
    assert answer.json()["code"] == "AUTHENTICATION_FAILED"


def test_scopes_narrow_what_a_key_may_do(w: World, as_user: As) -> None:
    made = as_user(w.editor).post(f"{WORKSPACE}/keys", {"name": "ci", "scopes": ["job.view"]}).json()
    holder = bearer(made["token"])

    assert holder.get(f"{WORKSPACE}/jobs").status_code == 200
    refused = holder.post(f"{WORKSPACE}/jobs", {"roles": [{}]})
    assert (refused.status_code, refused.json()["code"]) == (403, "SCOPE_MISSING")
    assert holder.post(f"{WORKSPACE}/keys", {"name": "better"}).status_code == 403


def test_a_key_for_ones_own_jobs_does_not_stop_those_of_others(w: World) -> None:
    scopes = ("job.view", "job.stop-own")
    token = access_key_create(acting_user=w.admin, user=w.admin, name="ci", scopes=scopes)[1]
    theirs, own = jobs.job(w.queue, w.editor), jobs.job(w.queue, w.admin)

    assert bearer(token).post(f"{WORKSPACE}/jobs/{theirs.name}/cancel").json()["code"] == "SCOPE_MISSING"
    assert bearer(token).post(f"{WORKSPACE}/jobs/{own.name}/cancel").status_code == 202


def test_another_users_key_does_not_exist(w: World, as_user: As) -> None:
    tenancy.access_key(w.admin)
    prefix = AccessKey.unscoped.get().prefix

    assert as_user(w.editor).delete(f"{WORKSPACE}/keys/{prefix}").status_code == 404
    assert as_user(w.editor).get(f"{WORKSPACE}/keys").json()["total"] == 0


def test_a_session_needs_a_csrf_token_to_write(w: World) -> None:
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(w.editor)

    assert client.get("/api/v1/me").status_code == 200
    assert client.post(f"{WORKSPACE}/jobs", {"roles": [{}]}).status_code == 403


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded"])
def test_a_form_sent_by_a_session_is_refused_as_a_form(w: World, kind: str) -> None:
    client = APIClient(enforce_csrf_checks=True)
    client.get("/login")
    client.force_login(w.editor)
    token = client.cookies["allotment_csrf"].value
    form = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\ntrain\r\n--x--\r\n'

    def send(**headers: str) -> int:
        return client.generic("POST", f"{WORKSPACE}/jobs", form, content_type=kind, **headers).status_code

    assert send(HTTP_X_CSRFTOKEN=token) == 415
    assert send() == 403


def test_queues_with_flavors_in_order(w: World, as_user: As) -> None:
    body = as_user(w.viewer).get(f"{WORKSPACE}/queues").json()

    assert body["total"] == 1
    assert (body["items"][0]["name"], body["items"][0]["flavors"]) == ("default", ["a100"])


def test_quota_with_use_borrowing_and_what_is_left(
    w: World, as_user: As, django_assert_max_num_queries: Any
) -> None:
    quotas.reserve(w.queue, w.flavor, Resource.GPU_CARDS, 10)
    client = as_user(w.viewer)

    with django_assert_max_num_queries(12):
        rows = client.get(f"{WORKSPACE}/quota").json()["items"]

    cards = {row["queue"]: row for row in rows if row["resource"] == "gpu.cards"}
    queue = cards["default"]
    assert (queue["nominal"], queue["reserved"], queue["borrowed"]) == (8, 10, 2)
    assert (queue["available"], queue["potential"]) == (6, 16)
    assert cards[""]["reserved"] == 10


def test_errors_speak_the_language_of_the_caller_and_keep_their_shape(w: World, as_user: As) -> None:
    answer = as_user(w.viewer).get("/api/v1/nowhere")

    assert answer.status_code == 404
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "NOT_FOUND"
