"""The stream that reports changes to open pages: the changes for each reader, and its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext

from alerts.models import Alert, UserMessage
from clusters.models import Cell
from foundation.audit.audit_log import record_action
from foundation.core import clock
from foundation.core.errors import PermissionDenied
from frontend.pages.live import change_log, change_stream
from frontend.pages.live.change_log import ChangeLog
from frontend.pages.live.change_stream import ChangeStream
from scheduling.lifecycle.transitions import add_event
from telemetry.models import Channel, Scope, Tick
from telemetry.store.times import to_ms
from tenants.models import Member, Role, Tenant, User
from tests.builders import jobs, tenancy
from tests.builders.world import World, world

Opener = Callable[[User], ChangeStream]


@pytest.fixture
def w(db: None) -> World:
    return world()


@pytest.fixture
def opened(w: World, monkeypatch: pytest.MonkeyPatch) -> Opener:
    """Open the page of a user; every poll reads anew, and time alone reports nothing."""
    monkeypatch.setattr(change_log, "SHARED_FOR_S", 0.0)
    monkeypatch.setattr(change_stream, "BEAT_S", inf)
    monkeypatch.setattr(change_stream, "CHECK_EVERY_S", inf)
    monkeypatch.setattr(change_stream, "log", ChangeLog())

    def open_page(user: User) -> ChangeStream:
        client = Client()
        client.force_login(user)
        request: Any = RequestFactory().get("/live")
        request.session, request.user = client.session, user
        return ChangeStream(request, user)

    return open_page


def alert(tenant: Tenant | None) -> Alert:
    facts = {"rule_name": "r", "metric": "m", "comparison": "above", "threshold": 1.0, "severity": "warning"}
    return Alert.unscoped.create(
        tenant=tenant, subject=str(tenant), label="it", started_at=clock.now(), **facts
    )


_SUMS = (
    "cards",
    "cards_sampled",
    "cards_allocated",
    "cores_allocated",
    "memory_capacity_mib",
    "memory_allocated_mib",
)


def measure(w: World) -> None:
    """Record a measurement of the cluster."""
    channel = Channel.unscoped.create(scope=Scope.CLUSTER, cluster_id=w.cluster.pk)
    Tick.unscoped.create(channel=channel, at_ms=to_ms(clock.now()), **dict.fromkeys(_SUMS, 0))


CHANGES: dict[str, tuple[str, Callable[[World], object], set[str]]] = {
    "a job": (
        "jobs",
        lambda w: add_event(jobs.job(w.queue, w.editor), "suspended", now=clock.now()),
        {"vera"},
    ),
    "an alert": ("alerts", lambda w: alert(w.workspace), {"vera"}),
    "a queue": (
        "changes",
        lambda w: record_action(
            w.admin, "queue.create", entity="queue", entity_id=w.queue.pk, tenant_id=w.workspace.pk
        ),
        {"vera"},
    ),
    "another's queue": (
        "changes",
        lambda w: record_action(
            w.outsider, "queue.create", entity="queue", entity_id=w.queue.pk, tenant_id=w.other_workspace.pk
        ),
        {"otto"},
    ),
    "one's own key": (
        "changes",
        lambda w: record_action(w.outsider, "key.create", entity="key", entity_id=w.queue.pk),
        {"otto"},
    ),
    "a cluster": (
        "changes",
        lambda w: record_action(w.platform_admin, "cluster.create", entity="cluster", entity_id="east"),
        set(),
    ),
    "an alert about a node": ("alerts", lambda w: alert(None), set()),
    "nodes": ("cells", lambda w: Cell.unscoped.update(inventory_version=900), set()),
    "a measurement": ("metrics", lambda w: measure(w), set()),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_reported_once_to_readers_who_may_see_it(opened: Opener, w: World, what: str) -> None:
    kind, change, seen_by = CHANGES[what]
    readers = {user.username: opened(user) for user in (w.viewer, w.outsider, w.platform_admin)}
    assert {stream.poll_text() for stream in readers.values()} == {("", False)}
    change(w)
    told = {name: stream.poll_text() for name, stream in readers.items()}
    expected = {*seen_by, w.platform_admin.username}
    assert told == {
        name: (f'event: changed\ndata: {{"kinds": ["{kind}"]}}\n\n' if name in expected else "", False)
        for name in readers
    }
    assert {stream.poll_text() for stream in readers.values()} == {("", False)}


def test_a_role_that_was_removed_reports_nothing_more(opened: Opener, w: World) -> None:
    stream = opened(w.viewer)
    Member.unscoped.filter(user=w.viewer).delete()
    add_event(jobs.job(w.queue, w.editor), "suspended", now=clock.now())
    assert stream.poll_text() == ("", False)


def test_a_role_that_was_added_is_reported(opened: Opener, w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = opened(w.viewer)
    tenancy.member(w.viewer, w.other_workspace, Role.VIEWER)
    monkeypatch.setattr(change_stream, "CHECK_EVERY_S", 0.0)
    add_event(jobs.job(w.other_queue, w.outsider), "suspended", now=clock.now())
    assert '"jobs"' in stream.poll_text()[0]


def test_a_reader_costs_no_query_and_one_after_a_change(opened: Opener, w: World, monkeypatch: Any) -> None:
    readers = [opened(w.viewer) for _page in range(20)] + [opened(w.outsider) for _page in range(20)]
    change_stream.log.read_since(None)
    monkeypatch.setattr(change_log, "SHARED_FOR_S", 60.0)
    with CaptureQueriesContext(connection) as captured:
        assert {stream.poll_text() for stream in readers} == {("", False)}
    assert len(captured) == 0
    add_event(jobs.job(w.queue, w.editor), "suspended", now=clock.now())
    monkeypatch.setattr(change_log, "SHARED_FOR_S", 0.0)
    with CaptureQueriesContext(connection) as captured:
        change_stream.log.read_since(None)
    assert len(captured) == 6, "a look reads each kind once"
    monkeypatch.setattr(change_log, "SHARED_FOR_S", 60.0)
    with CaptureQueriesContext(connection) as captured:
        told = [stream.poll_text()[0] for stream in readers]
    assert (len(captured), sum(map(bool, told))) == (20, 20)


def test_no_page_waits_for_the_look_of_another(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting pages hold connections, and the poll that they wait for may get none of the pool."""
    monkeypatch.setattr(change_log, "SHARED_FOR_S", 0.0)
    log, answers = ChangeLog(), []
    read = log._find_changes

    def look_slowly(now: float) -> Any:
        with CaptureQueriesContext(connection) as captured:
            answers.append(log.read_since(None))
        assert len(captured) == 0
        return read(now)

    monkeypatch.setattr(ChangeLog, "_find_changes", lambda _self, now: look_slowly(now))
    assert log.read_since(None) == (1, set())
    assert answers == [(0, set())]


def test_a_row_that_is_committed_below_a_known_one_is_new() -> None:
    rows, now = change_log.NewRows(), time.monotonic()
    assert rows.find_new(lambda above, limit: [], now) == []
    assert rows.find_new(lambda above, limit: [(7, 7)], now) == [(7, 7)]
    assert rows.find_new(lambda above, limit: [(7, 7), (6, 6)], now + 1) == [(6, 6)]


def test_old_rows_are_not_read_again() -> None:
    asked: list[Any] = []

    def read(above: int | None, limit: int) -> list[tuple[int, int]]:
        asked.append(above)
        return [(key, key) for key in range(30, above or 0, -1)][:limit]

    rows, now = change_log.NewRows(), time.monotonic()
    assert rows.find_new(read, now) == []
    assert rows.find_new(lambda above, limit: [(31, 31)], now) == [(31, 31)]
    assert rows.find_new(lambda above, limit: [(32, 32), (31, 31)], now + 1) == [(32, 32)]
    rows.find_new(read, now + change_log.LATE_S + 2)
    rows.find_new(read, now + change_log.LATE_S + 2)
    assert asked == [None, 30, 32]


def test_it_beats_without_changes(opened: Opener, w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_stream, "BEAT_S", 0.0)
    assert opened(w.viewer).poll_text() == ("event: beat\ndata: {}\n\n", False)


def test_it_ends_with_the_session(opened: Opener, w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_stream, "CHECK_EVERY_S", 0.0)
    stream = opened(w.viewer)
    stream.poll_text()
    Session.objects.all().delete()
    with pytest.raises(PermissionDenied):
        stream.poll_text()


def test_a_stranger_is_sent_to_sign_in(client: Client, db: None) -> None:
    assert client.get("/live")["Location"].startswith("/login")


def test_a_message_is_reported_to_its_user_alone(opened: Opener, w: World) -> None:
    streams = {user: opened(user) for user in (w.viewer, w.admin, w.platform_admin)}
    message = {"kind": "job", "event": "started", "facts": {"job": "a"}, "source": "a", "tenant": w.workspace}
    UserMessage.unscoped.create(user=w.viewer, **message)
    told = {user: stream.poll_text()[0] for user, stream in streams.items()}
    assert told == {
        w.viewer: 'event: changed\ndata: {"kinds": ["messages"]}\n\n',
        w.admin: "",
        w.platform_admin: "",
    }
