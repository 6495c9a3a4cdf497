"""An open stream ends, and sends nothing more, once its reader has lost the right to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import copy_context
from datetime import timedelta
from typing import Any, Final

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.sessions.models import Session
from django.test import Client

from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import SYSTEM
from foundation.core.errors import AllotmentError
from scheduling.api.jobs import stream
from scheduling.lifecycle.transitions import add_event
from scheduling.models import Job
from scheduling.selectors.events import feed
from tenants.api import audit as audit_views
from tenants.api.responses.live_stream import LiveStream
from tenants.models import AccessKey, CustomRole, Group, Member, Tenant, User
from tenants.services.access_key import access_key_create, access_key_revoke, access_key_rotate
from tenants.services.account import password_set, user_set_active
from tenants.services.group import group_delete, group_remove
from tenants.services.member import member_remove, member_set
from tenants.services.role import role_update
from tenants.services.tenant_move import tenant_move
from tests.builders import jobs, quotas, tenancy
from tests.builders.world import World

PASSWORD: Final = "a long password 1"
NEVER: Final = 10.0**9
EVENTS: Final = "/api/v1/events?workspace=team-m"
EVERYTHING: Final = "/api/v1/events"
LOG: Final = "/api/v1/workspaces/team-m/jobs/train/logs?follow=true"


class Reader:
    """A user with a role for each way to lose one, who reads streams about a job of `team-m`."""

    def __init__(self, w: World) -> None:
        self.boss = w.platform_admin
        self.folder, self.elsewhere = tenancy.folder("uplands"), tenancy.folder("lowlands")
        self.workspace = tenancy.workspace("team-m", self.folder)
        self.queue = quotas.queue(w.cell, self.workspace, [w.flavor])
        self.job: Job = jobs.job(self.queue, w.editor, "train")
        self.user: User = tenancy.user("reader")
        self.member: Member
        self.group: Group
        self.key: AccessKey
        self.client, self.headers = Client(), dict[str, str]()
        self.begun: list[LiveStream] = []

    def give(self, place: Tenant | None, *, by_group: bool = False) -> None:
        """Grant a role that may see jobs at a place."""
        role = tenancy.custom_role(place, "Watcher", "tenant.view", "job.view")
        self.group = tenancy.group("watchers", self.user if by_group else self.boss)
        whom: dict[str, Any] = {"group": self.group} if by_group else {"user": self.user}
        self.member = Member.unscoped.create(tenant=place, custom_role=role, **whom)

    def sign_in(self, *, by_session: bool = False) -> None:
        """Use a new key, or a session, for the requests from here on."""
        if by_session:
            assert self.client.login(username="reader", password=PASSWORD)
        else:
            self.key, token = access_key_create(acting_user=SYSTEM, user=self.user, name="reader")
            self.headers = {"Authorization": f"Bearer {token}"}

    def open(self, address: str) -> LiveStream:
        """Begin a stream."""
        response = self.client.get(address, headers=self.headers)
        assert response.status_code == 200
        for closer in response._resource_closers:  # type: ignore[attr-defined]
            closer()
        return self.begun.pop()


@pytest.fixture
def reader(w: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    made = Reader(w)
    respond = LiveStream.build_response

    def response(self: LiveStream) -> object:
        made.begun.append(self)
        return respond(self)

    monkeypatch.setattr(LiveStream, "build_response", response)
    # On PostgreSQL a feed waits for running transactions, and a test is one.
    monkeypatch.setattr(feed, "_transactions", lambda: (0, 0))
    yield made


def look(reader: LiveStream) -> str:
    """Return what is new, or the code of the problem that ends the stream."""
    try:
        return copy_context().run(reader.poll_text)[0]
    except AllotmentError as error:
        return error.code


def _role_of_less(r: Reader) -> None:
    r.member = member_set(
        acting_user=r.boss,
        tenant=r.member.tenant,
        user=r.member.user,
        role=tenancy.custom_role(r.member.tenant, "Less", "tenant.view"),
    )


def _rotated(r: Reader) -> None:
    access_key_rotate(acting_user=r.boss, key=r.key)


def _expired(r: Reader) -> None:
    AccessKey.unscoped.filter(pk=r.key.pk).update(expires_at=clock.now() - timedelta(seconds=1))


def _reset(r: Reader) -> None:
    password_set(acting_user=r.boss, user=r.user, password="quite another 22")


def _one_time(r: Reader) -> None:
    User.objects.filter(pk=r.user.pk).update(must_change_password=True)


def _moved(r: Reader) -> None:
    tenant_move(acting_user=r.boss, tenant=r.workspace, parent=r.elsewhere)


def _less_points(r: Reader) -> None:
    assert r.member.custom_role is not None
    role_update(acting_user=r.boss, role=r.member.custom_role, points=["tenant.view"])


Lose = Callable[[Reader], object]
BY_ROLE: Final[dict[str, Lose]] = {
    "role removed": lambda r: member_remove(acting_user=r.boss, member=r.member),
    "role of less": _role_of_less,
    "role changed": _less_points,
}
BY_GROUP: Final[dict[str, Lose]] = {
    "taken out of the group": lambda r: group_remove(acting_user=r.boss, group=r.group, user=r.user),
    "group deleted": lambda r: group_delete(acting_user=r.boss, group=r.group),
}
BY_KEY: Final[dict[str, Lose]] = {
    "key revoked": lambda r: access_key_revoke(acting_user=r.boss, key=r.key),
    "key rotated": _rotated,
    "key expired": _expired,
    "account closed": lambda r: user_set_active(acting_user=r.boss, user=r.user, active=False),
    "password reset": _reset,
}
BY_SESSION: Final[dict[str, Lose]] = {
    "signed out": lambda r: Session.objects.all().delete(),
    "account closed, by a session": BY_KEY["account closed"],
    "password reset, by a session": _reset,
    "one-time password": _one_time,
}
FROM_ABOVE: Final[dict[str, Lose]] = {"tenant moved": _moved}
LOSSES: Final = {**BY_ROLE, **BY_GROUP, **BY_KEY, **BY_SESSION, **FROM_ABOVE}
ENDS: Final = ("ACCESS_LOST", "NOT_FOUND", "PERMISSION_DENIED", "PASSWORD_CHANGE_REQUIRED")


CASES: Final = [
    *((loss, EVENTS) for loss in LOSSES),
    *((loss, EVERYTHING) for loss in ("role removed", "taken out of the group", "key revoked", "signed out")),
]


@pytest.mark.parametrize(("loss", "address"), CASES)
def test_a_stream_ends_and_sends_nothing_more_once_the_right_is_gone(
    reader: Reader, loss: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = reader.folder if loss in FROM_ABOVE else reader.workspace
    reader.give(None if address == EVERYTHING else place, by_group=loss in BY_GROUP)
    reader.sign_in(by_session=loss in BY_SESSION)
    quiet, told, log = reader.open(address), reader.open(address), reader.open(LOG)
    assert [look(each) for each in (quiet, told, log)] == ["", "", ""]
    monkeypatch.setattr(stream, "CHECK_EVERY_S", NEVER)
    add_event(reader.job, "before", now=clock.now())
    assert '"before"' in look(told) + look(told), "the stream is one that tells something"

    LOSSES[loss](reader)
    add_event(reader.job, "after", now=clock.now())
    # Between two checks the stream ends, or the row policies hide the change.
    assert look(told) in (*ENDS, "") and look(told) in (*ENDS, "")
    monkeypatch.setattr(stream, "CHECK_EVERY_S", 0.0)
    assert look(quiet) in ENDS, "at the next check"
    assert look(log) in ENDS


def test_a_key_with_scopes_reads_no_more_than_they_reach(reader: Reader) -> None:
    reader.give(None)
    key, token = access_key_create(acting_user=SYSTEM, user=reader.user, name="k", scopes=["tenant.view"])
    refused = Client().get(EVENTS, headers={"Authorization": f"Bearer {token}"})
    assert (refused.status_code, refused.json()["code"]) == (403, "SCOPE_MISSING")
    AccessKey.unscoped.filter(pk=key.pk).update(scopes=["job.view"])
    response = Client().get(EVENTS, headers={"Authorization": f"Bearer {token}"})
    assert response.status_code == 200
    AccessKey.unscoped.filter(pk=key.pk).update(scopes=["tenant.view"])
    assert look(reader.begun.pop()) in ("SCOPE_MISSING", "PERMISSION_DENIED")


def test_a_reader_who_comes_back_sees_nothing_of_another_workspace(reader: Reader, w: World) -> None:
    foreign = jobs.job(w.other_queue, w.outsider, "theirs")
    first = add_event(foreign, "secret", now=clock.now())
    own = add_event(reader.job, "own", now=clock.now())
    reader.give(reader.workspace)
    reader.sign_in()
    for after in (0, first.pk - 1, first.pk, own.pk - 1):
        begun = reader.open(f"{EVENTS}&cursor={after}")
        told = look(begun) + look(begun)
        assert '"own"' in told and "theirs" not in told and "secret" not in told


@pytest.mark.parametrize("place", ["admin", "workspaces/team-m"])
@pytest.mark.parametrize("loss", ["role removed", "key revoked", "signed out"])
def test_an_export_of_the_audit_breaks_off_once_the_right_is_gone(
    reader: Reader, loss: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        audit_log.record_action(
            SYSTEM, f"test.{number}", entity="x", entity_id="x", tenant_id=reader.workspace.pk
        )
    reader.give(None if place == "admin" else reader.workspace)
    role = reader.member.custom_role
    assert role is not None
    CustomRole.unscoped.filter(pk=role.pk).update(points=["tenant.view", "audit.view"])
    monkeypatch.setattr(audit_views, "_CHUNK", 1)
    reader.sign_in(by_session=loss in BY_SESSION)
    address = f"/api/v1/{place}/audit/export?search=test."
    whole, broken = ("".join(async_to_sync(_read)(reader, address, lost)) for lost in ("", loss))
    assert all(f"test.{number}" in whole for number in range(3))
    assert "test.2" in broken and "test.1" not in broken


async def _read(reader: Reader, address: str, lost: str) -> list[str]:
    """Return the pages of an export whose reader loses something after the first page."""
    told: list[str] = []
    response: Any = await sync_to_async(reader.client.get)(address, headers=reader.headers)
    assert response.status_code == 200
    try:
        async for piece in response.streaming_content:
            told.append(piece.decode())
            if lost and len(told) == 1:
                await sync_to_async(LOSSES[lost])(reader)
    except AllotmentError as error:
        assert error.code in ENDS
    else:
        assert not lost, "it came to its end"
    return told
