"""Filters and tags that format numbers and times."""

from __future__ import annotations

from datetime import datetime, timedelta

from django import template
from django.utils import timezone

from frontend.texts import formats

register = template.Library()


@register.filter
def duration(value: timedelta | float | None, units: int = 2) -> str:
    """Return a span of seconds or a timedelta as text: `2 h 5 min`."""
    return formats.format_duration(value, units)


@register.filter
def number(value: float | None, digits: int = 0) -> str:
    """Return a count with thousands separators."""
    return formats.format_number(value, digits)


@register.filter
def signed(value: float | None) -> str:
    """Return a difference with its sign."""
    return formats.format_signed(value)


@register.filter
def percent(value: float | None, digits: int = 0) -> str:
    """Return a share given in percent points."""
    return formats.format_percent(value, digits)


@register.filter
def memory(mebibytes: float | None) -> str:
    """Return MiB as GiB."""
    return formats.format_memory(mebibytes)


@register.filter
def limit(value: float | None) -> str:
    """Return a limit, where None is unlimited."""
    return formats.format_limit(value)


@register.simple_tag
def ago(moment: datetime | None) -> str:
    """Return a time relative to now, with the absolute time on hover; the browser updates it."""
    return formats.MISSING if moment is None else formats.relative_html(moment, timezone.now())


@register.simple_tag
def at(moment: datetime | None, seconds: bool = False, day: bool = False) -> str:
    """Return a time as clock time (with its `day`, or if it is not today), the full time on hover."""
    return formats.MISSING if moment is None else formats.clock_html(moment, seconds, day)
