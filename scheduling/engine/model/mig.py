"""What a MIG instance charges."""

from __future__ import annotations

from typing import NamedTuple

from scheduling.engine.model import Flavor, parse_profile

MIB_PER_GB = 1024


class Instance(NamedTuple):
    """Core units, rounded up, and MiB."""

    cores: int
    memory: int


def instance(profile: str, flavor: Flavor) -> Instance:
    """The charge of one instance, by name alone: the price does not depend on the card it comes from."""
    parts, gigabytes = parse_profile(profile)
    memory = gigabytes * MIB_PER_GB
    capped = min(memory, flavor.card_memory) if flavor.card_memory else memory
    return Instance(-(-flavor.card_cores * min(parts, flavor.mig_slices) // flavor.mig_slices), capped)
