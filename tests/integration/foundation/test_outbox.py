"""Hints are coalesced, published after commit, and kept when the broker does not take them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import time_machine
from django.db import transaction

from foundation.core import clock
from foundation.messaging import outbox
from foundation.messaging.outbox import Topic
from foundation.models import Hint
from tests.fixtures.wait import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    keys: list[str] = []
    monkeypatch.setitem(outbox._publishers, Topic.CYCLE.value, keys.append)
    yield keys


def test_many_changes_make_one_message(published: list[str]) -> None:
    for _ in range(5):
        outbox.add_hint(Topic.CYCLE, "cell-1")
    outbox.add_hint(Topic.CYCLE, "cell-2")

    assert outbox.publish_due() == 2
    assert published == ["cell-1", "cell-2"]
    assert not outbox.unpublished_hints().exists()


def test_a_delayed_hint_waits(published: list[str]) -> None:
    outbox.add_hint(Topic.CYCLE, "cell-1", delay_s=60)

    assert outbox.publish_due() == 0
    assert Hint.unscoped.count() == 1


def test_what_is_wanted_at_once_does_not_wait_for_what_is_wanted_later(published: list[str]) -> None:
    outbox.add_hint(Topic.CYCLE, "cell-1", delay_s=60)
    outbox.add_hint(Topic.CYCLE, "cell-1")

    assert outbox.publish_due() == 1
    assert published == ["cell-1"]
    assert outbox.unpublished_hints().count() == 1


def test_of_two_that_are_wanted_later_the_sooner_counts(published: list[str]) -> None:
    outbox.add_hint(Topic.CYCLE, "cell-1", delay_s=60)
    outbox.add_hint(Topic.CYCLE, "cell-1", delay_s=0.001)
    outbox.add_hint(Topic.CYCLE, "cell-1", delay_s=600)
    outbox.add_hint(Topic.CYCLE, "cell-2", delay_s=600)

    assert Hint.unscoped.count() == 2
    wait_until(outbox.publish_due, "the sooner one is due")
    assert published == ["cell-1"]


def test_the_next_hint_has_its_time() -> None:
    assert outbox.due_in() is None

    outbox.add_hint(Topic.CYCLE, "cell-1", delay_s=60)
    later = outbox.due_in()
    outbox.add_hint(Topic.CYCLE, "cell-2")
    at_once = outbox.due_in()

    assert later is not None and 50 < later <= 60
    assert at_once is not None and at_once <= 0


def test_a_hint_of_a_rolled_back_change_is_never_published(published: list[str]) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        outbox.add_hint(Topic.CYCLE, "cell-1")
        raise RuntimeError

    assert outbox.publish_due() == 0
    assert published == []


def test_a_broker_that_fails_loses_no_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(key: str) -> None:
        outbox.add_hint(Topic.CYCLE, "cell-1")  # another process adds the same hint meanwhile
        raise ConnectionError

    monkeypatch.setitem(outbox._publishers, Topic.CYCLE.value, refuse)
    outbox.add_hint(Topic.CYCLE, "cell-1")

    with pytest.raises(ConnectionError):
        outbox.publish_due()
    assert Hint.unscoped.get().topic == "cycle"

    told: list[str] = []
    monkeypatch.setitem(outbox._publishers, Topic.CYCLE.value, told.append)
    assert outbox.publish_due() == 1
    assert told == ["cell-1"]


def test_what_a_relay_died_over_is_published_later(
    published: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(key: str) -> None:
        raise KeyboardInterrupt  # unlike a failure of the broker, the process itself ends

    monkeypatch.setitem(outbox._publishers, Topic.EXECUTE.value, die)
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        outbox.add_hint(Topic.EXECUTE, "cell-1")
        with pytest.raises(KeyboardInterrupt):
            outbox.publish_due()
        outbox.add_hint(Topic.EXECUTE, "cell-1")
        monkeypatch.setitem(outbox._publishers, Topic.EXECUTE.value, published.append)

        assert outbox.publish_due() == 1, "the new wish waits for nobody"
        assert outbox.publish_due() == 0
        traveller.shift(10)

        assert outbox.publish_due() == 1
    assert published == ["cell-1", "cell-1"]
    assert not Hint.unscoped.exists()


def test_one_message_at_a_time_is_under_way_until_it_is_taken(published: list[str]) -> None:
    for _ in range(2):
        outbox.add_hint(Topic.CYCLE, "cell-1")
        assert outbox.publish_due() == 1
    assert published == ["cell-1"]

    outbox.clear_hints([Topic.CYCLE], "cell-1")
    outbox.add_hint(Topic.CYCLE, "cell-1")
    assert outbox.publish_due() == 1
    assert published == ["cell-1", "cell-1"]


def test_what_is_put_off_comes_again_and_so_does_what_is_asked_for_anew(published: list[str]) -> None:
    outbox.add_hint(Topic.CYCLE, "cell-1")
    assert outbox.publish_due() == 1

    outbox.put_off(Topic.CYCLE, "cell-1", delay_s=60)
    assert [hint.topic for hint in Hint.unscoped.all()] == ["cycle-put-off"]
    outbox.add_hint(Topic.CYCLE, "cell-1")
    assert outbox.publish_due() == 1
    assert published == ["cell-1", "cell-1"]


def test_what_was_put_off_is_hastened_and_nothing_else(published: list[str]) -> None:
    outbox.add_hint(Topic.CYCLE, "cell-1", delay_s=0.5)
    outbox.put_off(Topic.CYCLE, "cell-2", delay_s=0.5)
    outbox.put_off(Topic.CYCLE, "cell-3", delay_s=0.5)
    for key in ("cell-1", "cell-2"):
        outbox.hasten_hint(Topic.CYCLE, key)

    assert outbox.publish_due() == 1
    assert published == ["cell-2"]


def test_an_untaken_message_is_sent_again(published: list[str]) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        outbox.add_hint(Topic.CYCLE, "cell-1")
        assert outbox.publish_due() == 1
        traveller.shift(1)
        assert outbox.publish_due() == 0
        for _ in range(2):
            traveller.shift(2)
            assert outbox.publish_due() == 1
    assert published == ["cell-1"] * 3


def test_what_may_be_published_beside_its_like_is(
    published: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(outbox._publishers, Topic.EXECUTE.value, published.append)
    for _ in range(2):
        outbox.add_hint(Topic.EXECUTE, "cluster-1")
        assert outbox.publish_due() == 1
    assert published == ["cluster-1", "cluster-1"]
    assert not Hint.unscoped.exists()


@pytest.mark.parametrize("topic", ["invented", "invented-later", "cycle-invented", "cycles", "cycl", ""])
def test_hints_that_only_a_newer_relay_knows_stay_for_it(published: list[str], topic: str) -> None:
    unknown = Hint.unscoped.create(topic=topic, key="cell-9", not_before=clock.now())
    outbox.add_hint(Topic.CYCLE, "cell-1")

    assert outbox.publish_due() == 1
    assert published == ["cell-1"]
    assert outbox.publish_due() == 0
    after = outbox.due_in()
    assert after is None or after > 0, "a relay that cannot publish it does not look for it without a pause"
    kept = Hint.unscoped.get(pk=unknown.pk)
    assert (kept.topic, kept.key, kept.not_before) == (topic, "cell-9", unknown.not_before)


def test_hints_that_a_newer_relay_claimed_stay_for_it(published: list[str]) -> None:
    """A relay that died while publishing leaves its claims behind."""
    unknown = Hint.unscoped.create(topic="invented", key="cell-9", not_before=clock.now())
    Hint.unscoped.filter(pk=unknown.pk).update(topic=f"invented~{unknown.pk}")

    assert outbox.publish_due() == 0
    assert Hint.unscoped.get().topic == f"invented~{unknown.pk}"


@pytest.mark.parametrize("topic", [Topic.EXECUTE, Topic.CYCLE])
def test_a_message_that_cannot_be_published_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, topic: Topic
) -> None:
    told: list[str] = []

    def choose(key: str) -> None:
        if key == "broken":
            raise TypeError("no message can be made of it")
        told.append(key)

    monkeypatch.setitem(outbox._publishers, topic.value, choose)
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        for key in ("a", "broken", "c"):
            outbox.add_hint(topic, key)

        assert outbox.publish_due() == 2
        assert told == ["a", "c"]
        assert outbox.publish_due() == 0, "it is not tried again without a pause"

        outbox.add_hint(topic, "d")
        assert outbox.publish_due() == 1
        traveller.shift(10)
        monkeypatch.setitem(outbox._publishers, topic.value, told.append)

        assert outbox.publish_due() >= 1
        assert "broken" in told, "it is tried again when its turn has come"
