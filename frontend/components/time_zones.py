"""The list of time zones that fields offer."""

from __future__ import annotations

from functools import cache
from zoneinfo import available_timezones

from django.utils.html import format_html_join
from django.utils.safestring import SafeString


@cache
def zone_options() -> SafeString:
    """Return the options of all time zones, built once: listing the zones reads a folder of files."""
    return format_html_join("", '<option value="{}">', ((zone,) for zone in sorted(available_timezones())))
