"""Hints: rows that ask for a task to run soon.

A service inserts a hint in the transaction of its change; the relay publishes it after commit and deletes it.
A request never contacts the broker, nor waits for a relay that does, so a hung broker cannot block a request;
and a lost message costs only time, because a sweep over rows finds all work as well.

Cycles take long, and changes during a cycle request the next one. At most one cycle message per cell is in
transit, which a row records: its taker deletes that row before it reads the database, and so sees all changes
up to then.

PostgreSQL notifies the relay of each commit with a hint in it; with other databases, or when that fails, the
relay polls.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import structlog
from django.db import connection, transaction
from django.db.models import CharField, F, QuerySet, Value
from django.db.models.functions import Cast, Concat, Replace
from kombu.exceptions import OperationalError as BrokerError

from foundation.core import clock, faults
from foundation.models import Hint
from foundation.sql.postgres import preparing_cursor
from foundation.sql.prepared import PreparedQuery, PreparedUpdate

log = structlog.get_logger(__name__)


class Topic(StrEnum):
    """The subject of a hint. The key names the row: a cell or a cluster.

    `FREED` requests a cycle as well: quota was released and may be allocated at once.
    """

    CYCLE = "cycle"
    FREED = "freed"
    EXECUTE = "execute"
    OBSERVE = "observe"
    DELEGATE = "delegate"
    LISTEN = "listen"


CHANNEL: Final = "allotment_hint"
_LATER: Final = "-later"
_PUT_OFF: Final = "-put-off"
_SENT: Final = "-sent"
_SUFFIXES: Final = ("", _LATER, _PUT_OFF, _SENT)
_ONE_AT_A_TIME: Final = frozenset({Topic.CYCLE, Topic.FREED})
_CLAIMED: Final = "~"
_CLAIM: Final = timedelta(seconds=10)
# As often as the sweep repeats requests that may have been lost.
_TAKEN_WITHIN: Final = timedelta(seconds=2)


@dataclass(slots=True)
class _Quiet:
    """The topics about which the relay is notified later; the flag is whether there was a hint."""

    topics: Collection[Topic]
    owed: bool = False


Publisher = Callable[[str], None]
Worker = Callable[[str], None]
_publishers: dict[str, Publisher] = {}
_workers: dict[str, Worker] = {}
# None while the relay is notified of each hint.
_quiet: ContextVar[_Quiet | None] = ContextVar("quiet", default=None)
_INSERT: Final = (
    "INSERT INTO foundation_hint (topic, key, not_before) VALUES (%s, %s, %s) ON CONFLICT (topic, key)"
)
_ASK: Final = f"{_INSERT} DO NOTHING"
_ASK_LATER: Final = f"""{_INSERT} DO UPDATE
SET not_before = excluded.not_before WHERE foundation_hint.not_before > excluded.not_before"""
_DUE: Final = PreparedQuery(
    lambda topics: (
        Hint.unscoped.filter(topic__any_of=topics)
        .order_by("not_before")
        .values_list("not_before", "topic")[:1]
    )
)
_TAKE: Final = """DELETE FROM foundation_hint WHERE id = (
    SELECT id FROM foundation_hint WHERE not_before <= %s AND topic IN ({}) ORDER BY not_before LIMIT 1 {}
) RETURNING topic, key"""
_TAKE_OVER: Final = """UPDATE foundation_hint
SET topic = replace(topic, '~' || id, '') || '~' || id, not_before = %s
WHERE id IN (
    SELECT id FROM foundation_hint WHERE not_before <= %s AND replace(topic, '~' || id, '') IN ({})
    ORDER BY id LIMIT %s {}
) RETURNING id, topic, key"""
_CLAIM_MARK: Any = Concat(Value(_CLAIMED), Cast("id", CharField()))  # the published types want a constant
_UNCLAIMED: Final = Replace(F("topic"), _CLAIM_MARK, Value(""), output_field=CharField())
_NEXT: Final = PreparedQuery(
    lambda topics: (
        Hint.unscoped.alias(unclaimed=_UNCLAIMED)
        .filter(unclaimed__any_of=topics)
        .order_by("not_before")
        .values_list("not_before")[:1]
    )
)
_NOTE_SENT: Final = f"{_INSERT} DO NOTHING RETURNING key"
_ANSWERED: Final = "DELETE FROM foundation_hint WHERE topic IN ({}) AND key = %s"
_HASTENED: Final = PreparedUpdate(
    lambda name, key, now: Hint.unscoped.filter(topic=name, key=key, not_before__gt=now).order_by(),
    lambda name, key, now: {"not_before": now},
)


def add_hint(topic: Topic, key: uuid.UUID | str, *, delay_s: float = 0.0) -> None:
    """Request work on `topic` for `key`, not before `delay_s` seconds from now.

    Coalesced: while one is pending, a second only brings it forward at most. Immediate and delayed work are
    two hints, so that neither waits for the other.
    """
    _ask(topic, _LATER if delay_s > 0 else "", key, delay_s)


def put_off(topic: Topic, key: uuid.UUID | str, *, delay_s: float) -> None:
    """Postpone a hint that its taker can't handle: it is due again `delay_s` seconds from now, or when
    `hasten_hint` is called.
    """
    _ask(topic, _PUT_OFF, key, delay_s)
    if topic in _ONE_AT_A_TIME:
        _forget([topic.value + _SENT], key)


def hasten_hint(topic: Topic, key: uuid.UUID | str) -> None:
    """Make a postponed hint due now."""
    if _HASTENED(topic.value + _PUT_OFF, str(key), clock.now()):
        _wake_relay(topic)


def _ask(topic: Topic, suffix: str, key: uuid.UUID | str, delay_s: float) -> None:
    not_before = connection.ops.adapt_datetimefield_value(clock.now() + timedelta(seconds=delay_s))
    with preparing_cursor() as cursor:
        cursor.execute(_ASK_LATER if suffix else _ASK, [topic.value + suffix, str(key), not_before])
        written = cursor.rowcount
    if written:  # else the relay was notified of the pending hint
        _wake_relay(topic)


def _wake_relay(topic: Topic) -> None:
    quiet = _quiet.get()
    if quiet is not None and topic in quiet.topics:
        quiet.owed = True
    else:
        _ring()


def _ring() -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {CHANNEL}")


@contextmanager
def ring_later(topics: Collection[Topic]) -> Iterator[bool]:
    """Notify the relay of hints of these topics at the end of the block, of others at once; yield whether the
    block is the outermost."""
    if _quiet.get() is not None:
        yield False
        return
    quiet = _Quiet(topics)
    before = _quiet.set(quiet)
    try:
        yield True
    finally:
        _quiet.reset(before)
        if quiet.owed:
            _ring()


def register_topic(topic: Topic, publisher: Publisher, worker: Worker | None = None) -> None:
    """Register the task and the work function of a topic; called once from an `AppConfig.ready()`."""
    _publishers[topic.value] = publisher
    if worker is not None:
        _workers[topic.value] = worker


def due_soon(topics: Sequence[Topic], within: timedelta) -> datetime | None:
    """Return when the next hint of these topics is due; None if that is not within `within` from now.

    A future cycle does not count: hints that arrive meanwhile would wait for it.
    """
    first, now = _DUE.fetch_first(_names(topics)), clock.now()
    if not first:
        return None
    due, name = first
    return due if due <= now or (due <= now + within and _plain(name) not in _ONE_AT_A_TIME) else None


def work_one(topics: Sequence[Topic]) -> None:
    """Do the work of the first due hint in this process, unless another process has taken the hint."""
    names = _names(topics)
    skip = "FOR UPDATE SKIP LOCKED" if connection.features.has_select_for_update_skip_locked else ""
    take = _TAKE.format(", ".join(["%s"] * len(names)), skip)
    with preparing_cursor() as cursor:
        cursor.execute(take, [connection.ops.adapt_datetimefield_value(clock.now()), *names])
        taken = cursor.fetchone()
    if taken is not None:
        name, key = taken
        _workers[_plain(name)](key)


def clear_hints(topics: Sequence[Topic], key: uuid.UUID | str) -> None:
    """Delete the hints for work that begins now: it reads the database after this call."""
    _forget(_names(topics), key)


def _forget(names: Sequence[str], key: uuid.UUID | str) -> None:
    with preparing_cursor() as cursor:
        cursor.execute(_ANSWERED.format(", ".join(["%s"] * len(names))), [*names, str(key)])


def _names(topics: Sequence[Topic]) -> list[str]:
    return [topic.value + suffix for topic in topics for suffix in _SUFFIXES]


def _plain(name: str) -> str:
    return name.partition("-")[0]


def unpublished_hints() -> QuerySet[Hint]:
    """Return the hints of which no message is in transit."""
    return Hint.unscoped.exclude(topic__endswith=_SENT)


def due_in() -> float | None:
    """Return the seconds until the next hint that can be published here is due, at most zero if one is due;
    None without hints."""
    first = _NEXT.for_any(_published_names())
    return (first[0][0] - clock.now()).total_seconds() if first else None


def publish_due(limit: int = 200) -> int:
    """Publish due hints and delete them; return their number.

    Hints of topics that this process does not know stay for a relay of a newer version.

    They are claimed first, in a short transaction: from then on the same hint can be inserted again, without
    waiting for the broker. If publishing fails, the hints are due again at once; if this process dies, after
    `_CLAIM`. A message that the broker accepted nevertheless is published twice, which is harmless, and so is
    a second message that replaces one that was not taken in time.

    A message that cannot be published for a reason of its own is logged, stops no other, and is tried again
    after `_CLAIM`.

    Raises: kombu.exceptions.OperationalError or OSError when the broker fails.
    """
    # Checked first without writing: with SQLite, a write takes the only write lock.
    due = due_in()
    if due is None or due > 0:
        return 0
    rows = _claim(limit)
    faults.fault_point("relay.before_publish")
    failed: set[tuple[str, str]] = set()
    try:
        for topic, key in _messages(rows):
            if not _publish(topic, key):
                failed.add((topic, key))
    except Exception:
        _put_back(rows)
        raise
    faults.fault_point("relay.after_publish")
    published = [row.pk for row in rows if (_plain(row.topic), row.key) not in failed]
    Hint.unscoped.filter(id__in=published).delete()
    return len(published)


def _publish(topic: str, key: str) -> bool:
    """Publish one message; return False if only this message failed. Raises: BrokerError, OSError."""
    try:
        _publishers[topic](key)
    except (BrokerError, OSError):
        raise
    except Exception:
        log.exception("hint not published", topic=topic, key=key)
        _forget([topic + _SENT], key)
        return False
    return True


def _published_names() -> list[str]:
    return [topic + suffix for topic in _publishers for suffix in _SUFFIXES]


def _claim(limit: int) -> list[Hint]:
    """Claim due hints in one statement: the same hints can be inserted again, and the claimed ones are not
    due for a while."""
    now, names = clock.now(), _published_names()
    skip = "FOR UPDATE SKIP LOCKED" if connection.features.has_select_for_update_skip_locked else ""
    take = _TAKE_OVER.format(", ".join(["%s"] * len(names)), skip)
    with preparing_cursor() as cursor:
        times = [connection.ops.adapt_datetimefield_value(at) for at in (now + _CLAIM, now)]
        cursor.execute(take, [*times, *names, limit])
        taken = sorted(cursor.fetchall())
    own = ((pk, topic.partition(_CLAIMED)[0], key) for pk, topic, key in taken)
    return [Hint(id=pk, topic=topic, key=key, not_before=now) for pk, topic, key in own]


def _messages(rows: Sequence[Hint]) -> Iterator[tuple[str, str]]:
    """Yield the messages to publish, each right before its publication. A message is recorded as sent before
    a worker can take it, so that its taker finds the record.
    """
    for topic, key in dict.fromkeys((_plain(row.topic), row.key) for row in rows):
        if topic not in _ONE_AT_A_TIME or _note_sent(topic, key):
            yield topic, key


def _note_sent(topic: str, key: str) -> bool:
    """Record that a message is in transit; return whether none was."""
    due = connection.ops.adapt_datetimefield_value(clock.now() + _TAKEN_WITHIN)
    with preparing_cursor() as cursor:
        cursor.execute(_NOTE_SENT, [topic + _SENT, key, due])
        return cursor.fetchone() is not None


@transaction.atomic
def _put_back(rows: Sequence[Hint]) -> None:
    """Make claimed hints due at once; they replace equal hints inserted meanwhile."""
    Hint.unscoped.filter(id__in=[row.id for row in rows]).delete()
    for topic, key in {(_plain(row.topic), row.key) for row in rows}:
        _forget([topic + _SENT], key)
    again = {(row.topic, row.key): row for row in reversed(rows)}
    for row in again.values():
        row.pk = None
    Hint.unscoped.bulk_create(
        again.values(), update_conflicts=True, unique_fields=["topic", "key"], update_fields=["not_before"]
    )
