"""The meter of a pool divides the quota as the text beside it does."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from django.utils import translation

from clusters.models import Flavor, GpuMode
from foundation.core.quantities import Resource
from frontend.pages.submission.job_rail import _pool_after
from quotas.models import Queue
from quotas.selectors.tables.quota_row import QuotaRow

_AMOUNT = r"([\d,.]+) GPUs?"
_USED = re.compile(rf"^{_AMOUNT} of {_AMOUNT} nominal used")
_TAKEN = re.compile(rf"{_AMOUNT} (?:used by|lent to) other queues")
_FREE = re.compile(rf"available: {_AMOUNT} nominal")


def _stated(found: re.Match[str] | None) -> float:
    return float(found[1].replace(",", "")) if found else 0.0


@pytest.mark.parametrize("by_reason", [False, True], ids=["quota table", "reason"])
@pytest.mark.parametrize("seed", range(60))
def test_the_meter_and_the_text_agree(seed: int, by_reason: bool) -> None:
    rng = random.Random(seed)
    nominal, reserved = rng.randint(0, 12), rng.randint(0, 16)
    borrowed = min(reserved, max(0, reserved - nominal) + rng.randint(0, 2))
    lent = rng.randint(0, max(0, nominal - reserved + borrowed))
    flavor = Flavor(name="a100", gpu_mode=GpuMode.WHOLE)
    amounts = {"nominal": nominal, "reserved": reserved, "borrowed": borrowed, "lent": lent}
    row = QuotaRow(
        queue="q", flavor=flavor, resource=Resource.GPU_CORES, available=100 * rng.randint(0, 12),
        **{name: 100 * amount for name, amount in amounts.items()},
    )  # fmt: skip
    own_free = rng.randint(0, max(0, nominal - reserved))
    reason: dict[str, Any] = {
        "flavor": "a100", "resource": Resource.GPU_CARDS, "nominal": nominal, "used": reserved,
        "own_free": own_free, "borrowable": 2, "available": own_free + 2,
    }  # fmt: skip

    with translation.override("en"):
        pool = _pool_after(row, Queue(name="q"), 0.0, reason if by_reason else {})

    used, free = _USED.search(pool.text), _FREE.search(pool.text)
    assert used and free, pool.text
    meter = pool.meter
    assert (meter.allocated, meter.nominal) == (_stated(used), float(used[2]))
    assert meter.lent == _stated(_TAKEN.search(pool.text))
    assert meter.free == _stated(free)
    inside = meter.allocated - meter.borrowed
    assert inside >= 0 and inside + meter.lent + meter.free == meter.nominal
