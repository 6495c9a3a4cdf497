"""The key of a quota: one resource of one flavor at one quota node."""

from __future__ import annotations

import uuid
from functools import lru_cache
from typing import NamedTuple, Self

from foundation.core.flavor_resource import FlavorResource
from foundation.core.quantities import Resource

FlavorKey = tuple[uuid.UUID, Resource]
"""(flavor, resource): the key of one quota tree."""


class QuotaKey(NamedTuple):
    """A quota node, a flavor and a resource; the key of limits and of what is reserved."""

    node_id: uuid.UUID
    flavor_id: uuid.UUID
    resource: Resource

    @classmethod
    def at_node(cls, node_id: uuid.UUID, key: FlavorResource) -> Self:
        """Return the key of one quota of a node, from its key in the quota tree."""
        return cls(node_id, uuid.UUID(key.flavor), Resource(key.resource))

    @property
    def flavor_key(self) -> FlavorKey:
        """The flavor and the resource without the node."""
        return self.flavor_id, self.resource

    @property
    def tree_key(self) -> FlavorResource:
        """The key in the quota tree, whose nodes and flavors are named by strings."""
        return find_tree_key(self.flavor_id, self.resource)


@lru_cache(maxsize=4096)
def find_tree_key(flavor_id: uuid.UUID, resource: str) -> FlavorResource:
    """Return the key in the quota tree of a flavor and resource; thousands of rows share one key."""
    return FlavorResource(str(flavor_id), Resource(resource))
