"""The key by which quota is counted, in the quota tree, in the engine and in reasons."""

from __future__ import annotations

from typing import NamedTuple

ResourceName = str
"""A platform resource (`foundation.core.quantities.Resource`), or any resource name of a cluster."""


class FlavorResource(NamedTuple):
    """One resource of one flavor, for which a quota node has limits and usage (Kueue: FlavorResource)."""

    flavor: str
    resource: ResourceName
