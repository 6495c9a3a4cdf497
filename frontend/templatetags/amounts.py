"""Filters and tags that write numbers and times for people."""

from __future__ import annotations

from datetime import datetime, timedelta

from django import template
from django.utils import timezone

from frontend.texts import formats

register = template.Library()


@register.filter
def duration(value: timedelta | float | None, units: int = 2) -> str:
    """A span of seconds or a timedelta: `2 h 5 min`."""
    return formats.format_duration(value, units)


@register.filter
def number(value: float | None, digits: int = 0) -> str:
    """A count with thousands separators."""
    return formats.format_number(value, digits)


@register.filter
def signed(value: float | None) -> str:
    """A difference with its sign."""
    return formats.format_signed(value)


@register.filter
def percent(value: float | None, digits: int = 0) -> str:
    """A share in percent points."""
    return formats.format_percent(value, digits)


@register.filter
def memory(mebibytes: float | None) -> str:
    """MiB written in GiB."""
    return formats.format_memory(mebibytes)


@register.filter
def limit(value: float | None) -> str:
    """A limit, where None is unlimited."""
    return formats.format_limit(value)


@register.simple_tag
def ago(moment: datetime | None) -> str:
    """A moment relative to now, with the absolute time on hover; the browser keeps it fresh."""
    return formats.MISSING if moment is None else formats.relative_html(moment, timezone.now())


@register.simple_tag
def at(moment: datetime | None, seconds: bool = False, day: bool = False) -> str:
    """A moment as clock time (with its `day`, or when that is not today), the full time on hover."""
    return formats.MISSING if moment is None else formats.clock_html(moment, seconds, day)
