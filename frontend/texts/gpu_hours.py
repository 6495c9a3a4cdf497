"""GPU-hours and amounts of money as usage reports write them."""

from __future__ import annotations

from decimal import Decimal

from frontend.texts import formats
from telemetry.usage.figures import to_hours


def format_gpu_hours(core_ms: int) -> str:
    """Return GPU-hours as text, see `format_hours`."""
    return format_hours(to_hours(core_ms))


def format_hours(value: Decimal) -> str:
    """Return hours with one decimal, two below one; less than a hundredth is marked as such."""
    if 0 < value < Decimal("0.005"):
        return "< 0.01"
    return formats.format_number(float(value), 0 if not value else 2 if value < 1 else 1)


def format_money(amount: Decimal | None, digits: int) -> str:
    """Return an amount with the decimals of the currency; a dash for None."""
    return formats.MISSING if amount is None else f"{amount:,.{digits}f}"
