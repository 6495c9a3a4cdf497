"""What the intervals of a run say that it borrowed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foundation.core import clock
from scheduling.metering.usage_rows import rows_of_attempts
from scheduling.models import Allocation, Attempt, GpuRequestMode
from tests.builders import jobs
from tests.builders.world import world

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("loans", "borrowed"),
    [
        ({}, 0),
        ({"gpu.cores": 30}, 30),
        ({"gpu.cards": 2}, 50),
        ({"gpu.cards": 4, "gpu.cores": 60}, 60),
        ({"gpu.cards": 4}, 100),
        ({"memory": 4096}, 0),
    ],
)
def test_a_borrowed_slice_is_its_share_of_a_gpu(loans: dict[str, int], borrowed: int) -> None:
    w = world()
    role = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=25, gpu_memory=1024, replicas=4)
    attempt = jobs.allocate(jobs.job(w.queue, w.editor, roles=[role]), w.nodes[0])
    Allocation.unscoped.filter(attempt=attempt).update(charge={"gpu.cards": 1, "gpu.cores": 25})
    named = {f"{w.flavor.pk}/{resource}": amount for resource, amount in loans.items()}
    Attempt.unscoped.filter(pk=attempt.pk).update(borrowed=named)

    rows = [row for _, row in rows_of_attempts([attempt.pk], now=clock.now() + timedelta(hours=1))]

    assert [(row.cores, row.borrowed) for row in rows] == [(100, borrowed)]
