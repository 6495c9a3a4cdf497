"""The format of amounts.

One module decides how a duration, a memory size or a count is written, so that a table, a sentence and a
chart never disagree. Clock times are written by the server in its own zone and converted to the reader's zone
by the browser, which is why they are `<time>` elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from django.utils import timezone
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from foundation.core.sentences import join_sentences

MISSING = "–"

# Seconds per unit, largest first. At most two neighbouring units are shown.
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def unit_words() -> Mapping[str, str]:
    """Return the words with which a browser updates relative times, from the same source as the server's."""
    return _unit_words(get_language())


@cache
def _unit_words(_language: str | None) -> Mapping[str, str]:
    """Return the words in the active language; cached, because a page has some thousand times."""
    return {
        "d": _("%(n)s d"),
        "h": _("%(n)s h"),
        "min": _("%(n)s min"),
        "s": _("%(n)s s"),
        "ago": _("%(span)s ago"),
        "in": _("in %(span)s"),
        "now": _("just now"),
    }


def format_duration(value: timedelta | float | None, units: int = 2) -> str:
    """Return a span in at most `units` units: `41 min`, `2 h 5 min`, `3 d 4 h`. Numbers are seconds."""
    if value is None:
        return MISSING
    seconds = round(value.total_seconds() if isinstance(value, timedelta) else value)
    if seconds < 0:
        return MISSING
    words = unit_words()
    for place, (size, name) in enumerate(_UNITS):
        if seconds < size:
            continue
        parts = [words[name] % {"n": seconds // size}]
        # Seconds beside minutes are shown only for few minutes.
        if units > 1 and place + 1 < len(_UNITS) and (place < 2 or seconds < 600):
            small, small_name = _UNITS[place + 1]
            if rest := seconds % size // small:
                parts.append(words[small_name] % {"n": rest})
        return " ".join(parts)
    return words["s"] % {"n": 0}


def format_relative(moment: datetime | None, now: datetime) -> str:
    """Return a time relative to `now`, in one unit: `41 min ago`, `in 3 h`. Both must be aware."""
    if moment is None:
        return MISSING
    seconds = (now - moment).total_seconds()
    words = unit_words()
    if abs(seconds) < 5:
        return words["now"]
    span = format_duration(abs(seconds), units=1)
    return words["ago" if seconds > 0 else "in"] % {"span": span}


def format_number(value: float | None, digits: int = 0) -> str:
    """Return a count with thousands separators; a dash for None."""
    return MISSING if value is None else f"{_raise_half(value):,.{digits}f}"


def _raise_half(value: float) -> float:
    """Return the value by which a half is rounded away from 0: 4 - 2.45 is less than 1.55 in binary, and
    Python rounds 0.5 to 0."""
    return value + math.copysign(1e-9, value)


def format_signed(value: float | None) -> str:
    """Return a difference with its sign and a true minus: `+8`, `−20`; a dash for zero."""
    if not value:
        return MISSING
    return f"{_raise_half(value):+,.0f}".replace("-", "−")


def format_gpus(points: float, digits: int = 1) -> str:
    """Return percent points of compute as a number of GPUs: `12`, `12.3`."""
    return format_number(points / 100, digits).rstrip("0").removesuffix(".")


def format_signed_gpus(points: float) -> str:
    """Return percent points as GPUs with their sign and a true minus; empty if they round to 0."""
    text = f"{_raise_half(points / 100):+,.1f}".removesuffix(".0").replace("-", "−")
    return "" if text in ("+0", "−0") else text


def format_percent(value: float | None, digits: int = 0) -> str:
    """Return a share given in percent points: `69 %`."""
    return MISSING if value is None else f"{_raise_half(value):,.{digits}f} %"


def format_memory(mebibytes: float | None) -> str:
    """Return MiB as text, in GiB from one GiB up: `64 GiB`, `1.5 GiB`, `512 MiB`."""
    if mebibytes is None:
        return MISSING
    if abs(mebibytes) < 1024:
        return f"{_raise_half(mebibytes):,.0f} MiB"
    gibibytes = f"{_raise_half(mebibytes / 1024):,.1f}".removesuffix(".0")
    return f"{gibibytes} GiB"


UNLIMITED_WORDS: Final = ("unlimited", "∞", "不限")
"""Input that is read as no limit, whatever the language of the page."""


def format_limit(value: float | None) -> str:
    """Return a limit as text, where None is unlimited."""
    return _("unlimited") if value is None else format_number(value)


def format_absolute(moment: datetime) -> str:
    """Return the full time, the same in every language: `2026-03-01 14:02:11 UTC`."""
    return timezone.localtime(moment).strftime("%Y-%m-%d %H:%M:%S %Z")


def clock_html(moment: datetime, seconds: bool = False, day: bool = False) -> SafeString:
    """Return clock time, with the day if it is not today or `day` is set, and the full time on hover."""
    local = timezone.localtime(moment)
    today = not day and local.date() == timezone.localdate()
    shown = local.strftime(("" if today else "%m-%d ") + ("%H:%M:%S" if seconds else "%H:%M"))
    return format_html(
        '<time datetime="{}" title="{}" data-clock="{}">{}</time>',
        moment.isoformat(), format_absolute(moment), ("s" if seconds else "m") + ("d" if day else ""), shown,
    )  # fmt: skip


def relative_html(moment: datetime, now: datetime) -> SafeString:
    """Return a time relative to `now`, the full time on hover; the browser updates it."""
    return format_html(
        '<time datetime="{}" title="{}" data-relative>{}</time>',
        moment.isoformat(), format_absolute(moment), format_relative(moment, now),
    )  # fmt: skip


def add_note(text: object, note: object) -> str:
    """Return a text with a note in brackets, such as a unit."""
    return _("%(text)s (%(note)s)") % {"text": text, "note": note}


def join_html(sentences: Iterable[str]) -> SafeString:
    """Return sentences as one text for pages, joined as their language does; unsafe text is escaped."""
    return mark_safe(join_sentences(map(conditional_escape, sentences)))  # noqa: S308 (all parts are escaped)
