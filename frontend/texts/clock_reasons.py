"""The reasons for lower clocks of a GPU, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

CLOCK_REASONS: Final[Mapping[int, Promise]] = {
    0x8: gettext_lazy("Hardware slowdown"),
    0x40: gettext_lazy("Thermal slowdown (hardware)"),
    0x80: gettext_lazy("Power brake (hardware)"),
    0x20: gettext_lazy("Thermal slowdown (software)"),
    0x4: gettext_lazy("Power limit (software)"),
    0x10: gettext_lazy("Sync boost"),
    0x2: gettext_lazy("Clocks set for applications"),
    0x100: gettext_lazy("Display clocks"),
    0x1: gettext_lazy("GPU idle"),
}
"""The labels of the bits of NVML's clock event reasons, the most serious first."""


def describe_clock_reasons(bits: int) -> str:
    """Return the labels of all bits of a mask; an unknown bit is named by its number."""
    known = [str(word) for bit, word in CLOCK_REASONS.items() if bits & bit]
    rest = bits & ~sum(CLOCK_REASONS)
    return _(", ").join([*known, *([f"0x{rest:x}"] if rest else [])]) or _("None")
