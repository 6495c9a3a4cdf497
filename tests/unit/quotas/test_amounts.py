"""Amounts of quota in words."""

from __future__ import annotations

import pytest

from foundation.core.quantities import Resource
from quotas.texts.amounts import format_amount, format_change


@pytest.mark.parametrize(
    ("resource", "amounts", "alone", "change"),
    [
        (Resource.GPU_CARDS, (1, 2), "1 GPU", "1 GPU → 2 GPUs"),
        (Resource.GPU_CORES, (100, 250), "compute of 1 GPU", "1 GPU → 2.5 GPUs"),
        (Resource.GPU_CORES, (0, None), "compute of 0 GPUs", "0 GPUs → unlimited"),
        (Resource.MEMORY, (1024, 65536), "1 GiB", "1 GiB → 64 GiB"),
        (Resource.GPU_CARDS, (1280, None), "1,280 GPUs", "1,280 GPUs → unlimited"),
        (Resource.GPU_CORES, (128_000, 33), "compute of 1,280 GPUs", "1,280 GPUs → 0.33 GPUs"),
        (Resource.GPU_MEMORY, (1280 * 1024, 0), "1,280 GiB", "1,280 GiB → 0 MiB"),
        (Resource.CPU, (1000, 1_536_000), "1 CPU core", "1 CPU core → 1,536 CPU cores"),
        (Resource.CPU, (8000, 500), "8 CPU cores", "8 CPU cores → 0.5 CPU cores"),
    ],
)
def test_an_amount_names_compute_and_a_change_does_not(
    resource: Resource, amounts: tuple[int, int | None], alone: str, change: str
) -> None:
    assert format_amount(resource, amounts[0]) == alone
    assert format_change(resource, *amounts) == change
