"""The event stream, as uvicorn serves it over a real PostgreSQL."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.test import Client

from benchmarks.support.deadlines import DEADLINE_FACTOR
from foundation.core import clock
from scheduling.lifecycle.transitions import add_event
from scheduling.models import JobEvent
from scheduling.selectors.events.feed import EventFeed, event_latest
from tenants.models import AccessKey, Member
from tests.builders import jobs, tenancy
from tests.builders.world import World, world
from tests.fixtures.api_server import api_server
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.server

ACCESS_LOST = {"code": "ACCESS_LOST", "detail": "Your access has been removed."}


@pytest.fixture
def w(on_postgres: PostgresServer) -> World:
    return world()


@pytest.fixture
def served(on_postgres: PostgresServer, w: World) -> Iterator[str]:
    """Yield the address of the API, served by a process of its own."""
    with api_server(on_postgres) as address:
        yield f"{address}/api/v1"


def _open(address: str, token: str, **headers: str) -> Any:
    sent = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream", **headers}
    return httpx.stream("GET", address, headers=sent, timeout=httpx.Timeout(10, read=40))


def _messages(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Yield each message as its fields; a comment has the field `comment`."""
    message: dict[str, str] = {}
    for line in lines:
        if not line:
            yield message
            message = {}
            continue
        name, _, value = line.partition(":")
        message[name or "comment"] = value.strip()


def _next_event(messages: Iterator[dict[str, str]]) -> tuple[str, dict[str, Any], str]:
    message = next(found for found in messages if "event" in found)
    return message["event"], json.loads(message["data"]), message.get("id", "")


def test_events_arrive_resume_and_end_with_the_membership(w: World, served: str) -> None:
    token = tenancy.access_key(w.editor)
    job = jobs.job(w.queue, w.editor, "alpha")
    foreign = jobs.job(w.other_queue, w.outsider, "theirs")

    with _open(f"{served}/events?workspace=team-a", token) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["x-accel-buffering"] == "no"
        messages = _messages(response.iter_lines())
        assert next(messages) == {"retry": "3000"}
        add_event(foreign, "suspended", now=clock.now())
        first = add_event(job, "suspended", now=clock.now(), actor="ed")
        kind, data, key = _next_event(messages)
        assert (kind, data["code"], data["name"], key) == ("job", "suspended", "alpha", str(first.pk))

    second = add_event(job, "resumed", now=clock.now())
    with _open(f"{served}/events?workspace=team-a", token, **{"Last-Event-ID": key}) as response:
        messages = _messages(response.iter_lines())
        assert _next_event(messages)[2] == str(second.pk)
        Member.unscoped.filter(user=w.editor).delete()
        add_event(job, "cancelled", now=clock.now())
        told = {"code": "NOT_FOUND", "detail": "Workspace team-a not found."}
        assert _next_event(messages)[:2] == ("end", told)
        assert list(messages) == []


def test_the_stream_ends_with_the_key_and_lives_by_heartbeats(w: World, served: str) -> None:
    token = tenancy.access_key(w.editor)

    with _open(f"{served}/events?workspace=team-a", token) as response:
        messages = _messages(response.iter_lines())
        next(messages)
        assert next(messages) == {"comment": "still here"}
        AccessKey.unscoped.update(revoked_at=clock.now())
        assert _next_event(messages)[:2] == ("end", ACCESS_LOST)


def test_the_stream_ends_with_the_session(w: World, served: str) -> None:
    with httpx.Client(base_url=served.removesuffix("/api/v1"), timeout=40) as client:
        client.get("/login")
        csrf = client.cookies["allotment_csrf"]
        form = {"username": "ed", "password": "a long password 1", "csrfmiddlewaretoken": csrf}
        assert client.post("/login", data=form).status_code == 302
        with client.stream("GET", "/api/v1/events?workspace=team-a") as response:
            messages = _messages(response.iter_lines())
            next(messages)
            w.editor.set_password("another long password 2")
            w.editor.save()
            assert _next_event(messages)[:2] == ("end", ACCESS_LOST)


def test_open_pages_get_changes_of_jobs_of_their_own_tenant_only(w: World, served: str) -> None:
    told: queue.Queue[str] = queue.Queue()
    client = Client()
    client.force_login(w.viewer)

    def follow() -> None:
        cookies = {settings.SESSION_COOKIE_NAME: client.cookies[settings.SESSION_COOKIE_NAME].value}
        address = f"{served.removesuffix('/api/v1')}/live"
        with httpx.stream("GET", address, cookies=cookies, timeout=40) as response:
            for message in _messages(response.iter_lines()):
                told.put(message["event"])
                if message["event"] == "changed":
                    break

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    assert told.get(timeout=30) == "beat"
    add_event(jobs.job(w.other_queue, w.outsider), "suspended", now=clock.now())
    # Two beats of 3 s each, in which the follower reports only beats or a change.
    assert [told.get(timeout=30) for _ in range(2)] == ["beat", "beat"]
    began = time.monotonic()
    add_event(jobs.job(w.queue, w.editor), "suspended", now=clock.now())
    assert next(word for word in iter(lambda: told.get(timeout=30), "") if word != "beat") == "changed"
    assert time.monotonic() - began < 2.0 * DEADLINE_FACTOR
    follower.join(30)


def test_who_may_not_read_gets_a_problem_and_no_stream(w: World, served: str) -> None:
    token = tenancy.access_key(w.outsider)

    for query, headers, status in [
        ("?workspace=team-a", {}, 404),
        ("", {}, 403),
        ("?workspace=team-b", {"Last-Event-ID": "x"}, 400),
        ("?colour=red", {}, 400),
    ]:
        with _open(f"{served}/events{query}", token, **headers) as response:
            assert response.status_code == status, query
            assert response.headers["content-type"] == "application/problem+json"


def test_an_event_that_is_committed_late_is_not_missed(w: World) -> None:
    job = jobs.job(w.queue, w.editor, "alpha")
    feed = EventFeed(event_latest())
    noted, go_on = threading.Event(), threading.Event()

    def late() -> None:
        try:
            with transaction.atomic():
                add_event(job, "late", now=clock.now())
                noted.set()
                assert go_on.wait(30)
        finally:
            connection.close()

    writer = threading.Thread(target=late)
    writer.start()
    assert noted.wait(30)
    add_event(job, "early", now=clock.now())

    assert [list(feed.poll_events(Q())) for _ in range(3)] == [[], [], []], "what is below may yet come"
    go_on.set()
    writer.join()
    assert [event.code for event in feed.poll_events(Q())] == ["late", "early"]


def test_an_event_that_was_rolled_back_holds_up_no_reader(w: World) -> None:
    job = jobs.job(w.queue, w.editor, "alpha")
    feed = EventFeed(event_latest())
    for _ in range(3):
        with transaction.atomic():
            add_event(job, "undone", now=clock.now())
            transaction.set_rollback(True)
        add_event(job, "kept", now=clock.now())

    found = [event.code for _ in range(2) for event in feed.poll_events(Q())]

    assert found == ["kept"] * 3
    assert feed.cursor == JobEvent.unscoped.order_by("-pk").values_list("pk", flat=True)[0]
