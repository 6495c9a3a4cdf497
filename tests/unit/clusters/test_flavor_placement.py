"""A flavor is placed by any policy of the engine, a new one by the platform's own."""

from __future__ import annotations

import pytest
from django.utils import translation

from clusters.models import Flavor, PlacementPolicy
from scheduling.engine import EngineConfig


def test_every_policy_of_the_engine_is_offered() -> None:
    assert set(PlacementPolicy.values) == {name for name, _ in EngineConfig().policies}


def test_a_new_flavor_gets_the_policy_of_the_platform() -> None:
    assert str(Flavor(name="a100").placement) == "default"


@pytest.mark.parametrize("policy", list(PlacementPolicy))
def test_a_policy_says_in_both_languages_what_it_does(policy: PlacementPolicy) -> None:
    with translation.override("en"):
        english = policy.help
    with translation.override("zh-hans"):
        chinese = policy.help
    assert english and chinese != english
    assert "\n" not in english and english.endswith(".") and chinese.endswith("。")


def test_no_two_policies_say_the_same() -> None:
    assert len({policy.help for policy in PlacementPolicy}) == len(PlacementPolicy)
