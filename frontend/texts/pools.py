"""Names of pools."""

from __future__ import annotations

from collections.abc import Collection

Place = tuple[str, str]
"""The names of the cluster and of the flavor of a pool."""


def name_pool(place: Place, places: Collection[Place]) -> str:
    """Return the name of a pool, with its cluster's if other pools have the same name."""
    cluster, name = place
    alone = all(other == cluster for other, its_name in places if its_name == name)
    return name if alone else f"{cluster}/{name}"
