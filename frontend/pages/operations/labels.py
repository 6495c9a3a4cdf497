"""Words and amounts that several operators' pages share."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from frontend.texts import formats

MODES: dict[str, str | Promise] = {
    "none": _("No GPU"),
    "whole": _("whole GPUs"),
    "slice": _("slices"),
    "mig": _("MIG instances"),
}


def mode_word(mode: str) -> str:
    """Return the word for the allocation mode of a pool."""
    return str(MODES.get(mode, mode))


def format_cards(points: float) -> str:
    """Percent points of compute as a number of cards: `12`, `12.3`."""
    return formats.format_number(points / 100, 1).removesuffix(".0")


def signed_cards(cards: float) -> str:
    """A number of cards with its sign and a true minus; what rounds to nothing is empty."""
    text = f"{cards:+,.1f}".removesuffix(".0").replace("-", "−")
    return "" if text in ("+0", "−0") else text


def compute_percent(part: float, whole: float) -> float | None:
    """A part in percent; None of nothing."""
    return 100 * part / whole if whole else None
