"""Counters and distributions of all processes together, for `/metrics`.

Web processes, workers and cycles run on several machines, are replaced, and only some of them are scraped. So
each keeps its counts for a few seconds and then adds them to rows of the database, from which any web process
answers. A process that is killed loses those seconds; a restart loses nothing.

Labels name parts of the platform, codes and routes, and never tenants, jobs or users: their number has no
bound, and a scraper has no role on any tenant.
"""

from __future__ import annotations

import json
import os
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from foundation.models import Measure

log = structlog.get_logger(__name__)
BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0, 3600.0)
"""The upper bounds of the buckets of every distribution, in seconds."""
_ENDLESS: Final = "+Inf"
_LES: Final = (*map(str, BOUNDS_S), _ENDLESS)
_ADD: Final = """INSERT INTO foundation_measure (name, labels, le, count, total) VALUES {}
ON CONFLICT (name, labels, le) DO UPDATE
SET count = foundation_measure.count + excluded.count, total = foundation_measure.total + excluded.total"""
_ROWS: Final = 200
_Key = tuple[str, tuple[str, ...], str]
_known: dict[str, Counter | Histogram] = {}
_guard = threading.Lock()
_counted: defaultdict[_Key, list[float]] = defaultdict(lambda: [0, 0.0])


class _CountingProcess:
    """The time when this process last stored its counts, on its own clock, and the lock of the thread that
    stores them.
    """

    written_at = time.monotonic()
    writing = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Named:
    """The name of a measure, its meaning, and the names of its labels."""

    name: str
    help: str
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _known[self.name] = self  # type: ignore[assignment]  # always one of the two below

    def _count(self, le: str, value: float, labels: dict[str, str]) -> None:
        if tuple(labels) != self.labels:
            raise TypeError(f"{self.name} has the labels {self.labels}, not {tuple(labels)}")
        key = (self.name, tuple(labels.values()), le)
        with _guard:
            counted = _counted[key]
            counted[0] += 1
            counted[1] += value


class Counter(_Named):
    """A number that only grows; its name ends in `_total`."""

    def add(self, value: float = 1, **labels: str) -> None:
        """Add `value`. `labels` come in the order in which they were declared."""
        self._count("", value, labels)


class Histogram(_Named):
    """A distribution of durations; its name ends in `_seconds`."""

    def observe(self, seconds: float, **labels: str) -> None:
        """Add one duration. `labels` come in the order in which they were declared."""
        self._count(_LES[bisect_left(BOUNDS_S, seconds)], seconds, labels)

    def time_block(self, **labels: str) -> _Timer:
        """Add the duration of the block, even if it raises."""
        return _Timer(self, labels)


class _Timer:
    """A measured block; a class, because it costs a third of a generator."""

    __slots__ = ("_begun", "_labels", "_measure")

    def __init__(self, measure: Histogram, labels: dict[str, str]) -> None:
        self._measure, self._labels = measure, labels

    def __enter__(self) -> None:
        self._begun = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._measure.observe(time.monotonic() - self._begun, **self._labels)


def is_due() -> bool:
    """Return whether there are counts to store, and the last time is long enough ago."""
    return (
        bool(_counted)
        and time.monotonic() - _CountingProcess.written_at >= settings.ALLOTMENT_MEASURES_EVERY_S
    )


def write_due() -> None:
    """Store the counts if that is due; called after a piece of work for which no user waits."""
    if is_due():
        write_measures()


def write_beside() -> threading.Thread | None:
    """Store the counts in a new thread, which is returned; None while an earlier thread still runs.

    So a request never waits for the database's write lock or disk because of its counts.
    """
    writing = _CountingProcess.writing
    if connection.in_atomic_block or not writing.acquire(blocking=False):
        return None
    thread = threading.Thread(target=_write_and_close, args=(writing,), name="measures", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the process is ending, or can have no more threads
        writing.release()
        return None
    return thread


def _write_and_close(writing: threading.Lock) -> None:
    try:
        write_measures()
    finally:
        connection.close()
        writing.release()


def write_measures() -> None:
    """Add this process's counts to the rows; after an error they are kept for the next time."""
    if connection.in_atomic_block:  # it might be rolled back
        return
    with _guard:
        taken, _CountingProcess.written_at = dict(_counted), time.monotonic()
        _counted.clear()
    # In a fixed order, so that two processes never wait for each other.
    rows = sorted(
        (name, json.dumps(labels), le, count, total) for (name, labels, le), (count, total) in taken.items()
    )
    for start in range(0, len(rows), _ROWS):
        some = rows[start : start + _ROWS]
        try:
            with connection.cursor() as cursor:
                cursor.execute(
                    _ADD.format(", ".join(["(%s, %s, %s, %s, %s)"] * len(some))),
                    [value for row in some for value in row],
                )
        except (DatabaseError, InterfaceError) as error:
            log.warning("measures not written", why=str(error).strip())
            _keep(rows[start:])
            return


def _keep(rows: list[tuple[str, str, str, float, float]]) -> None:
    with _guard:
        for name, labels, le, count, total in rows:
            counted = _counted[name, tuple(json.loads(labels)), le]
            counted[0] += count
            counted[1] += total


def _forget_after_fork() -> None:
    """Reset the counts in a child, which stores only its own; its parent still has the rest."""
    _counted.clear()
    _CountingProcess.writing = threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)


def counter_metrics() -> Iterable[Metric]:
    """Yield every measure that this version knows; one without any count has no samples."""
    rows: defaultdict[str, defaultdict[str, dict[str, tuple[int, float]]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for name, labels, le, count, total in Measure.unscoped.order_by("name", "labels").values_list(
        "name", "labels", "le", "count", "total"
    ):
        rows[name][labels][le] = (count, total)
    for name, measure in sorted(_known.items()):
        found = {tuple(json.loads(labels)): by_le for labels, by_le in rows[name].items()}
        own = {labels: by_le for labels, by_le in found.items() if len(labels) == len(measure.labels)}
        yield _counters(measure, own) if isinstance(measure, Counter) else _histograms(measure, own)


_Found = dict[tuple[str, ...], dict[str, tuple[int, float]]]


def _counters(measure: _Named, found: _Found) -> Metric:
    family = CounterMetricFamily(measure.name, measure.help, labels=measure.labels)
    for labels, by_le in found.items():
        family.add_metric(labels, by_le.get("", (0, 0.0))[1])
    return family


def _histograms(measure: _Named, found: _Found) -> Metric:
    family = HistogramMetricFamily(measure.name, measure.help, labels=measure.labels)
    for labels, by_le in found.items():
        so_far, buckets = 0, []
        for le in _LES:
            so_far += by_le.get(le, (0, 0.0))[0]
            buckets.append((le, so_far))
        family.add_metric(labels, buckets, sum(total for _, total in by_le.values()))
    return family
