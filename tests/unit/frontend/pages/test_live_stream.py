"""The stream that tells open pages of changes: what makes it tell, and when it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext

from clusters.models import Cell
from foundation.audit.audit_log import record_action
from foundation.core import clock
from foundation.core.errors import PermissionDenied
from frontend.pages.live import change_stream, marks
from frontend.pages.live.change_stream import ChangeStream
from scheduling.lifecycle.transitions import add_event
from tests.builders import jobs
from tests.builders.world import World, world


@pytest.fixture
def w(db: None) -> World:
    return world()


@pytest.fixture
def stream(w: World, client: Client, monkeypatch: pytest.MonkeyPatch) -> ChangeStream:
    """The stream of a page that was just opened; every look reads anew."""
    monkeypatch.setattr(marks, "SHARED_FOR_S", 0.0)
    monkeypatch.setattr(marks, "reader", marks.MarkReader())
    client.force_login(w.viewer)
    request: Any = RequestFactory().get("/live")
    request.session, request.user = client.session, w.viewer
    return ChangeStream(request, w.viewer.pk)


CHANGES: dict[str, Callable[[World], object]] = {
    "jobs": lambda w: add_event(jobs.job(w.queue, w.editor), "suspended", now=clock.now()),
    "cells": lambda w: Cell.unscoped.update(inventory_version=900),
    "changes": lambda w: record_action(w.admin, "queue.create", entity="queue", entity_id=w.queue.pk),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_is_told_once(stream: ChangeStream, w: World, kind: str) -> None:
    assert stream.poll_text() == ("", False)
    CHANGES[kind](w)
    text, over = stream.poll_text()
    assert (text, over) == (f'event: changed\ndata: {{"kinds": ["{kind}"]}}\n\n', False)
    assert stream.poll_text() == ("", False)


def test_it_beats_without_changes(stream: ChangeStream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_stream, "BEAT_S", 0.0)
    assert stream.poll_text() == ("event: beat\ndata: {}\n\n", False)


def test_it_ends_with_the_session(stream: ChangeStream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_stream, "CHECK_EVERY_S", 0.0)
    stream.poll_text()
    Session.objects.all().delete()
    with pytest.raises(PermissionDenied):
        stream.poll_text()


def test_many_pages_share_a_reading(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "SHARED_FOR_S", 60.0)
    reader = marks.MarkReader()
    reader.read_marks()
    with CaptureQueriesContext(connection) as captured:
        for _page in range(50):
            reader.read_marks()
    assert len(captured) == 0


def test_a_stranger_is_sent_to_sign_in(client: Client, db: None) -> None:
    assert client.get("/live")["Location"].startswith("/login")
