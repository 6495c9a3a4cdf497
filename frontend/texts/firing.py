"""Labels and tones for firing alerts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.utils.translation import gettext as _

from alerts.models import AlertSeverity
from frontend.texts import formats

SEVERITY_TONES: Final = {
    AlertSeverity.CRITICAL: "failed",
    AlertSeverity.WARNING: "waiting",
    AlertSeverity.INFO: "info",
}


def describe_firing(counts: Mapping[AlertSeverity, int]) -> str:
    """Return the severities that fire with their numbers: `Critical 1 · Warning 2`."""
    parts = [f"{severity.label} {formats.format_number(n)}" for severity, n in counts.items() if n]
    return " · ".join(parts) or _("None")


def tone_of_firing(counts: Mapping[AlertSeverity, int]) -> str:
    """Return the tone of a tile that counts alerts: that of the highest severity; none for notes alone."""
    if counts[AlertSeverity.CRITICAL]:
        return SEVERITY_TONES[AlertSeverity.CRITICAL]
    return SEVERITY_TONES[AlertSeverity.WARNING] if counts[AlertSeverity.WARNING] else ""
