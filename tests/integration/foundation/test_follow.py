"""Hints of a task are followed in the process where it ran, for topics that the process may work on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from foundation.messaging import due_hints, outbox
from foundation.messaging.due_hints import drain_due_hints
from foundation.messaging.outbox import Topic
from foundation.models import Hint

pytestmark = pytest.mark.django_db


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collect the keys of cells that were worked on here."""
    keys: list[str] = []
    monkeypatch.setitem(outbox._workers, Topic.CYCLE.value, keys.append)
    due_hints.take_up([Topic.CYCLE])
    yield keys
    due_hints.take_up([])


def left() -> list[str]:
    return [f"{hint.topic}:{hint.key}" for hint in Hint.unscoped.order_by("id")]


def test_what_a_task_asks_for_is_done_where_it_ran(worked: list[str]) -> None:
    with drain_due_hints():
        outbox.add_hint(Topic.CYCLE, "cell-1")
        outbox.add_hint(Topic.CYCLE, "cell-2")
        assert worked == []

    assert worked == ["cell-1", "cell-2"]
    assert left() == []


def test_other_topics_are_left_to_those_who_read_their_queue(worked: list[str]) -> None:
    with drain_due_hints():
        outbox.add_hint(Topic.EXECUTE, "cluster-1")
        outbox.add_hint(Topic.CYCLE, "cell-1")

    assert worked == ["cell-1"]
    assert left() == ["execute:cluster-1"]


def test_what_is_due_soon_is_waited_for_and_what_is_due_later_is_not(
    monkeypatch: pytest.MonkeyPatch, worked: list[str]
) -> None:
    monkeypatch.setitem(outbox._workers, Topic.OBSERVE.value, worked.append)
    due_hints.take_up([Topic.OBSERVE])
    with drain_due_hints():
        outbox.add_hint(Topic.OBSERVE, "cluster-1", delay_s=0.02)
        outbox.add_hint(Topic.OBSERVE, "cluster-2", delay_s=60)

    assert worked == ["cluster-1"]
    assert left() == ["observe-later:cluster-2"]


def test_the_next_cycle_is_not_waited_for(worked: list[str]) -> None:
    with drain_due_hints():
        outbox.add_hint(Topic.CYCLE, "cell-1", delay_s=0.02)

    assert worked == []
    assert left() == ["cycle-later:cell-1"]


def test_the_work_on_a_hint_may_ask_for_more(monkeypatch: pytest.MonkeyPatch, worked: list[str]) -> None:
    def work(key: str) -> None:
        with drain_due_hints():  # as around the task itself
            worked.append(key)
            if len(worked) < 3:
                outbox.add_hint(Topic.CYCLE, f"{key}+")

    monkeypatch.setitem(outbox._workers, Topic.CYCLE.value, work)
    with drain_due_hints():
        outbox.add_hint(Topic.CYCLE, "cell")

    assert worked == ["cell", "cell+", "cell++"]


def test_it_ends_some_time(monkeypatch: pytest.MonkeyPatch, worked: list[str]) -> None:
    monkeypatch.setattr(due_hints, "_LONGEST_S", 0.05)
    monkeypatch.setitem(outbox._workers, Topic.CYCLE.value, lambda key: outbox.add_hint(Topic.CYCLE, key))
    with drain_due_hints():
        outbox.add_hint(Topic.CYCLE, "cell-1")

    assert left() == ["cycle:cell-1"]


def test_work_that_fails_leaves_the_other_hints(monkeypatch: pytest.MonkeyPatch, worked: list[str]) -> None:
    def fail(key: str) -> None:
        raise RuntimeError(key)

    monkeypatch.setitem(outbox._workers, Topic.CYCLE.value, fail)
    with pytest.raises(RuntimeError, match="cell-1"), drain_due_hints():
        outbox.add_hint(Topic.CYCLE, "cell-1")
        outbox.add_hint(Topic.CYCLE, "cell-2")

    assert left() == ["cycle:cell-2"]


@pytest.fixture
def sent_notifications() -> Iterator[list[str]]:
    """Collect the notifications that are sent to the relay."""
    rung: list[str] = []

    def note(execute: object, sql: str, *rest: object) -> object:
        rung.extend([sql] if sql.startswith("NOTIFY") else [])
        return execute(sql, *rest)  # type: ignore[operator]

    with connection.execute_wrapper(note):
        yield rung


def test_the_relay_is_notified_at_once_of_work_of_others_and_once_of_the_rest(
    worked: list[str], sent_notifications: list[str]
) -> None:
    rings = 1 if connection.vendor == "postgresql" else 0
    with drain_due_hints():
        outbox.add_hint(Topic.EXECUTE, "cluster-1")
        assert len(sent_notifications) == rings
        outbox.add_hint(Topic.CYCLE, "cell-1", delay_s=60)
        outbox.add_hint(Topic.CYCLE, "cell-2", delay_s=60)
        assert len(sent_notifications) == rings

    assert len(sent_notifications) == 2 * rings


def test_the_relay_is_notified_once_of_a_repeated_hint(sent_notifications: list[str]) -> None:
    outbox.add_hint(Topic.CYCLE, "cell")
    outbox.add_hint(Topic.CYCLE, "cell")
    outbox.add_hint(Topic.CYCLE, "cell", delay_s=60)
    outbox.add_hint(Topic.CYCLE, "cell", delay_s=90)
    rings = 1 if connection.vendor == "postgresql" else 0
    assert len(sent_notifications) == 2 * rings

    outbox.add_hint(Topic.CYCLE, "cell", delay_s=30)  # earlier
    assert len(sent_notifications) == 3 * rings
