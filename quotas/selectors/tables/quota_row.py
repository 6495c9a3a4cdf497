"""The row by which both quota endpoints, the console and the command line show the quota of one node."""

from __future__ import annotations

from dataclasses import dataclass

from clusters.models import Flavor
from foundation.core.quantities import Resource
from quotas.tree.limits import Amount, compute_own_part


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRow:
    """The quota of one node for one resource of one flavor, in the resource's unit. None is unlimited.

    `queue` is the name of the node's queue, empty at a tenant. `nominal` = `own_nominal` + `distributed`: the
    quota that the node shares among all nodes below it, and the nominals of its children together. `reserved`
    is charged to the admitted jobs at and below the node, whether or not they use it; `borrowed` is the part
    of it that is quota of other nodes, and `lent` the part of the nominal that others reserve. The sum of
    `lent` over all nodes equals the sum of `borrowed`. `available` could be reserved now, borrowing included,
    and `potential` if others reserved nothing; neither is below zero. `has_limits` says whether limits of the
    node itself are stored for the resource.
    """

    queue: str
    flavor: Flavor
    resource: Resource
    nominal: Amount = 0
    own_nominal: Amount = 0
    distributed: Amount = 0
    borrowing_limit: Amount = None
    lending_limit: Amount = None
    reserved: int = 0
    borrowed: int = 0
    lent: int = 0
    available: Amount = 0
    potential: Amount = 0
    has_limits: bool = False

    @property
    def is_assigned(self) -> bool:
        """Return whether the node has limits or quota, or its jobs reserve any; else it may only borrow."""
        return self.has_limits or self.nominal != 0 or self.reserved > 0

    @property
    def free(self) -> Amount:
        """The part of the nominal that is not reserved; None where the nominal is unlimited."""
        return (
            None if self.nominal is None else max(0, self.nominal - self.reserved + self.borrowed - self.lent)
        )

    @property
    def own_free(self) -> Amount:
        """The part of `available` that would not be borrowed; None where the nominal is unlimited.

        Reasons of pending jobs divide what is available in the same way. It exceeds `free` where quota of
        the node is lent while others have some left.
        """
        if self.nominal is None or self.available is None:
            return self.free
        return compute_own_part(self.available, self.nominal, self.reserved)

    @property
    def borrowable(self) -> Amount:
        """The part of `available` that others would lend; None is unlimited."""
        if self.nominal is None:
            return 0
        return None if self.available is None else self.available - (self.own_free or 0)
