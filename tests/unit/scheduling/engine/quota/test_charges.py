"""The charges of a task that depend on the flavor."""

from __future__ import annotations

import pytest

from foundation.core.quantities import Resource
from scheduling.engine import compute_demand
from scheduling.engine.model import Charge, Flavor, FlavorResource, GpuMode, GpuRequest, Request
from scheduling.engine.state.charges import sum_charges_cached

INSTANCE = Request(gpu=GpuRequest(mode=GpuMode.MIG, profile="2g.10gb"))


@pytest.mark.parametrize(("slices", "cores"), [(7, 286), (4, 500), (1, 1000), (7, 286)])
def test_an_instance_is_charged_by_how_the_flavor_divides_its_cards(slices: int, cores: int) -> None:
    flavor = Flavor(id="f", card_cores=1000, mig_slices=slices)
    assert compute_demand(INSTANCE, flavor)[Resource.GPU_CORES] == cores


def test_equal_charges_have_one_sum() -> None:
    one, other = ((Charge("f", Resource.CPU, 2), Charge("f", Resource.CPU, amount)) for amount in (3, 3))
    assert one is not other and sum_charges_cached(one) is sum_charges_cached(other)
    assert sum_charges_cached(one) == {FlavorResource("f", Resource.CPU): 5}
    assert sum_charges_cached(one[:1]) == {FlavorResource("f", Resource.CPU): 2}
