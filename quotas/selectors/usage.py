"""Reserved, borrowed and lent quota of tenants, for the tree of the console.

Counted in percent points of cards (`gpu.cores`): 100 is one card, so whole cards and slices add up.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.core.quantities import Resource
from quotas.models import LedgerEntry, Quota
from tenants.models import Tenant
from tenants.selectors.tenant import tenant_list


@dataclass(frozen=True, slots=True)
class FlavorUsage:
    """One pool of one tenant, in percent points of a card.

    `nominal` None is unlimited. `borrowed` lies within `reserved`; `lent` is nominal that others reserve
    now, shared among all lenders in proportion to what they leave unused.
    """

    flavor: Flavor
    nominal: int | None
    reserved: int
    borrowed: int
    lent: int


@dataclass(frozen=True, slots=True)
class TenantUsage:
    """A tenant with its depth below the viewer's topmost tenant, and its pools."""

    tenant: Tenant
    depth: int
    flavors: Sequence[FlavorUsage]

    @property
    def reserved(self) -> int:
        return sum(part.reserved for part in self.flavors)

    @property
    def borrowed(self) -> int:
        return sum(part.borrowed for part in self.flavors)

    @property
    def lent(self) -> int:
        return sum(part.lent for part in self.flavors)


@dataclass(slots=True)
class _Leaf:
    tenant_id: uuid.UUID
    flavor_id: uuid.UUID
    nominal: int | None = 0
    reserved: int = 0
    lent: int = 0

    @property
    def borrowed(self) -> int:
        return 0 if self.nominal is None else max(0, self.reserved - self.nominal)

    @property
    def spare(self) -> int:
        return 0 if self.nominal is None else max(0, self.nominal - self.reserved)


def tenant_usage(*, viewer: Actor) -> list[TenantUsage]:
    """Every tenant in the viewer's sight, parents first; a folder is the sum of what is below it.

    A folder borrows and lends only what crosses its border.
    """
    tenants = tenant_list(viewer=viewer)
    leaves = _leaves()
    _share_lending(leaves)
    paths = dict(Tenant.unscoped.values_list("id", "path"))
    flavors = {
        flavor.pk: flavor for flavor in Flavor.unscoped.select_related("cluster").order_by("name", "id")
    }
    depths: dict[uuid.UUID, int] = {}
    usages = []
    for tenant in tenants:
        depths[tenant.pk] = depths[tenant.parent_id] + 1 if tenant.parent_id in depths else 0
        usages.append(TenantUsage(tenant, depths[tenant.pk], _flavors(tenant, leaves, flavors, paths)))
    return usages


def _leaves() -> list[_Leaf]:
    """One entry per tenant and flavor, from two queries."""
    leaves: dict[tuple[uuid.UUID, uuid.UUID], _Leaf] = {}
    cores = Resource.GPU_CORES.value
    rows = Quota.unscoped.filter(resource=cores).values_list("node__tenant_id", "flavor_id", "own_nominal")
    for tenant_id, flavor_id, nominal in rows:
        leaf = leaves.setdefault((tenant_id, flavor_id), _Leaf(tenant_id, flavor_id))
        leaf.nominal = None if nominal is None or leaf.nominal is None else leaf.nominal + nominal
    ledger = LedgerEntry.unscoped.filter(resource=cores, reserved__gt=0)
    for tenant_id, flavor_id, amount in ledger.values_list("node__tenant_id", "flavor_id", "reserved"):
        leaves.setdefault((tenant_id, flavor_id), _Leaf(tenant_id, flavor_id)).reserved += amount
    return sorted(leaves.values(), key=lambda leaf: (leaf.flavor_id, leaf.tenant_id))


def _share_lending(leaves: Iterable[_Leaf]) -> None:
    """Say who lends what is borrowed: in proportion to spare quota, rounded so that the sums agree."""
    by_flavor: defaultdict[uuid.UUID, list[_Leaf]] = defaultdict(list)
    for leaf in leaves:
        by_flavor[leaf.flavor_id].append(leaf)
    for group in by_flavor.values():
        spare = sum(leaf.spare for leaf in group)
        rest = min(spare, sum(leaf.borrowed for leaf in group))
        for leaf in group:
            leaf.lent = rest * leaf.spare // spare if spare else 0
            spare -= leaf.spare
            rest -= leaf.lent


def _flavors(
    tenant: Tenant,
    leaves: Iterable[_Leaf],
    flavors: Mapping[uuid.UUID, Flavor],
    paths: Mapping[uuid.UUID, str],
) -> list[FlavorUsage]:
    sums: defaultdict[uuid.UUID, Counter[str]] = defaultdict(Counter)
    unlimited: set[uuid.UUID] = set()
    for leaf in leaves:
        if not paths[leaf.tenant_id].startswith(tenant.path):
            continue
        sums[leaf.flavor_id].update(
            nominal=leaf.nominal or 0, reserved=leaf.reserved, borrowed=leaf.borrowed, lent=leaf.lent
        )
        if leaf.nominal is None:
            unlimited.add(leaf.flavor_id)
    # What one team of a folder lends to another does not leave the folder.
    inside = {pk: min(part["borrowed"], part["lent"]) for pk, part in sums.items()}
    return [
        FlavorUsage(
            flavor,
            None if pk in unlimited else sums[pk]["nominal"],
            sums[pk]["reserved"],
            sums[pk]["borrowed"] - inside[pk],
            sums[pk]["lent"] - inside[pk],
        )
        for pk, flavor in flavors.items()
        if pk in sums
    ]
