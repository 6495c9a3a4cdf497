"""The key by which quota is counted, in the tree, in the engine and in reasons."""

from __future__ import annotations

from typing import NamedTuple

ResourceName = str
"""A platform resource (`foundation.core.quantities.Resource`), or any name that a cluster counts by."""


class FlavorResource(NamedTuple):
    """One resource of one flavor: what a node of the tree has limits and usage of (Kueue: FlavorResource)."""

    flavor: str
    resource: ResourceName
