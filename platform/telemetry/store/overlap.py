"""Leaves out readings that would count a time of a channel twice.

An agent may deliver old readings after an exporter was read in its place: their readings cover the same time,
though never with the same millisecond.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Mapping

from django.db.models import F

from clusters.gpu.report import INTERVAL_MOST_MS
from telemetry.models import Reading
from telemetry.store.matching import ChannelKey, Draft


class _Spans:
    """The spans of time that the readings of each channel cover.

    Readings with and without compute are kept separately: two sources may each measure a part of the values.
    """

    def __init__(self) -> None:
        self._spans: dict[tuple[int, bool], list[tuple[int, int]]] = defaultdict(list)
        self._times: set[tuple[int, int]] = set()
        self._longest = 0

    def add_span(self, channel: int, compute: bool, at_ms: int, interval_ms: int) -> None:
        insort(self._spans[channel, compute], (at_ms, interval_ms))
        self._times.add((channel, at_ms))
        self._longest = max(self._longest, interval_ms)

    def has_span(self, channel: int, compute: bool, at_ms: int, interval_ms: int) -> bool:
        """Return whether a known reading has the same start, or covers half of the shorter one's time."""
        if (channel, at_ms) in self._times:
            return True
        spans, until = self._spans[channel, compute], at_ms + interval_ms
        for number in range(bisect_left(spans, (at_ms - self._longest, 0)), len(spans)):
            start, length = spans[number]
            if start >= until:
                break
            shared = min(until, start + length) - max(at_ms, start)
            if 2 * shared >= min(interval_ms, length):
                return True
        return False


def leave_out_overlaps(drafts: Collection[Draft], channels: Mapping[ChannelKey, int]) -> list[Draft]:
    """Return the drafts, by time, that no stored reading and no earlier draft of their channel covers."""
    if not drafts:
        return []
    since = min(draft.at_ms for draft in drafts)
    until = max(draft.at_ms + draft.interval_ms for draft in drafts)
    known = _Spans()
    rows = Reading.unscoped.filter(
        channel__in={channels[draft.key] for draft in drafts},
        at_ms__gte=since - INTERVAL_MOST_MS,
        at_ms__lt=until,
    ).filter(at_ms__gt=since - F("interval_ms"))
    for channel, cores, at_ms, interval_ms in rows.values_list(
        "channel_id", "cores_used", "at_ms", "interval_ms"
    ):
        known.add_span(channel, cores is not None, at_ms, interval_ms)
    new = []
    for draft in sorted(drafts, key=lambda draft: draft.at_ms):
        span = (channels[draft.key], draft.cores_used is not None, draft.at_ms, draft.interval_ms)
        if not known.has_span(*span):
            known.add_span(*span)
            new.append(draft)
    return new
