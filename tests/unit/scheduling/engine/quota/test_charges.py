"""What a task is charged, where it depends on the flavor."""

from __future__ import annotations

import pytest

from foundation.quantities import Resource
from scheduling.engine import demand
from scheduling.engine.model import Flavor, GpuMode, GpuRequest, Request

INSTANCE = Request(gpu=GpuRequest(mode=GpuMode.MIG, profile="2g.10gb"))


@pytest.mark.parametrize(("slices", "cores"), [(7, 286), (4, 500), (1, 1000), (7, 286)])
def test_an_instance_is_charged_by_how_the_flavor_divides_its_cards(slices: int, cores: int) -> None:
    flavor = Flavor(id="f", card_cores=1000, mig_slices=slices)
    assert demand(INSTANCE, flavor)[Resource.GPU_CORES] == cores
