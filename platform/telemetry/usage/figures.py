"""The figures of a report and their sums. Whole numbers: percent points of a GPU times milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Final

from foundation.core.months import CORE_MS_PER_GPU_HOUR

HOUR_DIGITS: Final = 6
_MS_PER_HOUR: Final = 3_600_000
PRICE_DIGITS: Final = 6
"""The decimals of prices, as `telemetry.models.Price` stores them."""


@dataclass(slots=True)
class Figures:
    """GPU time of one row.

    `reserved` = `used` + `idle` + `unmeasured`. `borrowed` and `lost` are parts of `reserved`. `billed`
    differs from it for slices with more memory than compute. `amount` is None if no price is known for any of
    it; `unpriced` is the billed time without a price.
    """

    reserved: int = 0
    measured: int = 0
    used: int = 0
    borrowed: int = 0
    lost: int = 0
    billed: int = 0
    unpriced: int = 0
    amount: Decimal | None = None

    @property
    def idle(self) -> int:
        """Return the time that was held, measured and not used."""
        return self.measured - self.used

    @property
    def unmeasured(self) -> int:
        """Return the time that was held without readings."""
        return self.reserved - self.measured

    @property
    def cost_per_gpu_hour(self) -> Decimal | None:
        """Return the cost per GPU-hour of the time with a price.

        None below a tenth of a GPU-hour: costs are rounded, so such a small cost does not show the price.
        """
        priced = self.billed - self.unpriced
        if self.amount is None or priced < CORE_MS_PER_GPU_HOUR // 10:
            return None
        with localcontext() as context:
            context.prec = 50
            return self.amount * CORE_MS_PER_GPU_HOUR / priced

    def add_figures(self, other: Figures) -> None:
        """Add the figures of another row."""
        self.reserved += other.reserved
        self.measured += other.measured
        self.used += other.used
        self.borrowed += other.borrowed
        self.lost += other.lost
        self.billed += other.billed
        self.unpriced += other.unpriced
        if other.amount is not None:
            self.amount = other.amount if self.amount is None else self.amount + other.amount


def to_hours(core_ms: int) -> Decimal:
    """Return GPU-hours, rounded to a millionth."""
    return _to_rounded(core_ms, CORE_MS_PER_GPU_HOUR)


def to_core_hours(millicore_ms: int) -> Decimal:
    """Return CPU core-hours, rounded to a millionth."""
    return _to_rounded(millicore_ms, 1000 * _MS_PER_HOUR)


def to_gib_hours(mebibyte_ms: int) -> Decimal:
    """Return GiB-hours, rounded to a millionth."""
    return _to_rounded(mebibyte_ms, 1024 * _MS_PER_HOUR)


def _to_rounded(amount: int, per_unit: int) -> Decimal:
    with localcontext() as context:
        context.prec = 50
        return (Decimal(amount) / per_unit).quantize(Decimal(1).scaleb(-HOUR_DIGITS), ROUND_HALF_UP)


def round_amount(core_ms_times_price: Decimal, digits: int) -> Decimal:
    """Return the amount of money for a sum of GPU time times price per GPU-hour, rounded half up once."""
    with localcontext() as context:
        context.prec = 50
        units = round_units(int(core_ms_times_price.scaleb(PRICE_DIGITS)), digits)
        return Decimal(units).scaleb(-digits)


def round_units(scaled: int, digits: int) -> int:
    """Return the amount of money in its smallest unit, with `digits` decimals, rounded half up.

    `scaled` is GPU time times price per GPU-hour without the decimals of the price.
    """
    units: int = 10**digits
    per_unit = CORE_MS_PER_GPU_HOUR * 10**PRICE_DIGITS
    return (2 * scaled * units + per_unit) // (2 * per_unit)
