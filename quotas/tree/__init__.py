"""Pure arithmetic of hierarchical quota: no Django, no clock, whole numbers only."""

from foundation.core.flavor_resource import FlavorResource, ResourceName
from quotas.tree.errors import CycleError, NotALeafError, OverdrawnError, TreeError, UnknownNodeError
from quotas.tree.limits import Amount, NodeLimits, is_at_least
from quotas.tree.share import DominantResourceShare
from quotas.tree.tree import Branch, QuotaTree

__all__ = [
    "Amount",
    "Branch",
    "CycleError",
    "DominantResourceShare",
    "FlavorResource",
    "NodeLimits",
    "NotALeafError",
    "OverdrawnError",
    "QuotaTree",
    "ResourceName",
    "TreeError",
    "UnknownNodeError",
    "is_at_least",
]
