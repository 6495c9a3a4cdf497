"""Labels and amounts for several operators' pages."""

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
    """Return a part in percent; None if the whole is zero."""
    return 100 * part / whole if whole else None
