"""The tables from which a window is read: the coarsest grain first, finer ones after its last roll-up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from django.db.models import Min

from telemetry.models import PendingBucket, Reading, RolledMinute, RolledTenMinutes, RolledTwoHours, Tick
from telemetry.series.windows.window import Window
from telemetry.store.times import MINUTE_MS, TEN_MINUTES_MS, TWO_HOURS_MS, floor_ms

_ROLLED: Final[dict[int, type[Any]]] = {
    TWO_HOURS_MS: RolledTwoHours,
    TEN_MINUTES_MS: RolledTenMinutes,
    MINUTE_MS: RolledMinute,
}


GRAIN_OF: Final[dict[type[Any], int]] = {table: grain_ms for grain_ms, table in _ROLLED.items()}
"""The milliseconds that a row of each table of roll-ups covers."""


def sources_of(window: Window, fine: type[Reading] | type[Tick]) -> Iterator[tuple[type[Any], int, int]]:
    """Yield tables with the times from and until which they are read; together they cover the window once.

    An interval that is not yet rolled up, or has to be again, is read from the next finer grain, and so is
    everything after it.
    """
    since = window.from_ms
    if window.grain_ms:
        rows = PendingBucket.unscoped.filter(grain_ms__lte=window.grain_ms, at_ms__lt=window.until_ms)
        oldest = dict(
            rows.order_by().values("grain_ms").annotate(at=Min("at_ms")).values_list("grain_ms", "at")
        )
        for grain_ms, table in _ROLLED.items():
            if grain_ms > window.grain_ms:
                continue
            waiting = [at for grain, at in oldest.items() if grain <= grain_ms]
            border = floor_ms(min([*waiting, window.until_ms]), grain_ms)
            if border > since:
                yield table, since, border
                since = border
    if since < window.until_ms:
        yield fine, since, window.until_ms
