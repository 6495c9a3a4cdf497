"""The charge of a MIG instance."""

from __future__ import annotations

from typing import NamedTuple

from scheduling.engine.model import Flavor, parse_profile

MIB_PER_GB = 1024


class MigInstance(NamedTuple):
    """The charge of an instance: core units, rounded up, and MiB."""

    cores: int
    memory: int


def compute_instance(profile: str, flavor: Flavor) -> MigInstance:
    """Return the charge of one instance; it depends on the profile and the flavor, not on the card."""
    parts, gigabytes = parse_profile(profile)
    memory = gigabytes * MIB_PER_GB
    capped = min(memory, flavor.card_memory) if flavor.card_memory else memory
    return MigInstance(-(-flavor.card_cores * min(parts, flavor.mig_slices) // flavor.mig_slices), capped)
