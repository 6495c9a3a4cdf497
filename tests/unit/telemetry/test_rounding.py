"""Amounts of money are rounded half up once, whether they are computed as decimals or as whole numbers."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.core.months import CORE_MS_PER_GPU_HOUR
from telemetry.usage.figures import PRICE_DIGITS, round_amount, round_units


@given(
    core_ms=st.integers(0, 10**18),
    price=st.decimals(0, 1_000_000, places=PRICE_DIGITS),
    digits=st.integers(0, 6),
)
def test_amounts_are_those_of_exact_decimals(core_ms: int, price: Decimal, digits: int) -> None:
    with localcontext() as context:
        context.prec = 60
        product = core_ms * price
        exact = (product / CORE_MS_PER_GPU_HOUR).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
        assert str(round_amount(product, digits)) == str(exact)
        units = round_units(core_ms * int(price.scaleb(PRICE_DIGITS)), digits)
        assert Decimal(units).scaleb(-digits) == exact


@pytest.mark.parametrize(
    ("share", "digits", "shown"),
    [("0.005", 2, "0.01"), ("0.004999", 2, "0.00"), ("0.5", 0, "1"), ("1.5", 0, "2"), ("2", 2, "2.00")],
)
def test_half_a_unit_is_rounded_up(share: str, digits: int, shown: str) -> None:
    assert str(round_amount(CORE_MS_PER_GPU_HOUR * Decimal(share), digits)) == shown
