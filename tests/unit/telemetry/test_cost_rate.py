"""The cost of a GPU-hour, from costs that are rounded."""

from __future__ import annotations

from decimal import Decimal

import pytest

from foundation.core.months import CORE_MS_PER_GPU_HOUR
from telemetry.usage.figures import Figures


@pytest.mark.parametrize("seconds", [8, 9, 30, 359])
def test_so_little_time_has_no_cost_per_hour(seconds: int) -> None:
    """At 2.00 an hour, 8 s cost 0.00 and 9 s 0.01: neither says what an hour costs."""
    billed = seconds * CORE_MS_PER_GPU_HOUR // 3600
    assert Figures(billed=billed, amount=Decimal("0.01")).cost_per_gpu_hour is None


def test_time_without_a_price_does_not_lower_the_cost_per_hour() -> None:
    hour = CORE_MS_PER_GPU_HOUR
    assert Figures(billed=3 * hour, unpriced=hour, amount=Decimal("4.00")).cost_per_gpu_hour == 2
    assert Figures(billed=3 * hour, unpriced=3 * hour).cost_per_gpu_hour is None
