"""Words and amounts that several operators' pages share."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

MODES: dict[str, str | Promise] = {
    "none": _("No GPU"),
    "whole": _("whole GPUs"),
    "slice": _("slices"),
    "mig": _("MIG instances"),
}


def mode_word(mode: str) -> str:
    """Return the word for the allocation mode of a pool."""
    return str(MODES.get(mode, mode))


def compute_percent(part: float, whole: float) -> float | None:
    """A part in percent; None of nothing."""
    return 100 * part / whole if whole else None
