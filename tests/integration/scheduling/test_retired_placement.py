"""A pool that names a placement policy of an earlier version is placed by the default one."""

from __future__ import annotations

import pytest

from clusters.models import Flavor, PlacementPolicy
from scheduling.models import JobState
from scheduling.services.cycle import cycle_run
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("retired", ["bestfit", "dotprod", "packing", "clustering", "fgd"])
def test_a_job_starts_in_a_pool_with_a_policy_that_is_gone(retired: str) -> None:
    assert retired not in PlacementPolicy.values
    stage = Stage()
    Flavor.unscoped.update(placement=retired)
    job = stage.submit("a")
    cycle_run(cell_id=stage.cell.pk)
    assert state(job) == JobState.ADMITTED
