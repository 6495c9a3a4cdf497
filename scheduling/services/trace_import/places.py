"""Creates missing workspaces and queues for the tenants of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction

from clusters.models import BackendKind, Cell, Device, Flavor, GpuMode
from foundation.core.errors import Invalid
from foundation.core.identifiers import dns_label
from foundation.core.quantities import UNLIMITED, Resource
from quotas.models import Queue
from quotas.services.queues.queue import queue_create
from quotas.services.quota import QuotaAmount, quota_set
from tenants.models import Tenant, TenantKind, User
from tenants.services.tenant import tenant_create

QUEUE = "default"


@dataclass(frozen=True, slots=True)
class ImportPool:
    """The flavors of whole cards in a cell's simulated clusters, and their number of cards."""

    cell: Cell
    flavors: list[Flavor]
    cards: int


def pool_of(cell_name: str | None) -> ImportPool:
    """Return the pool on which jobs of a trace run.

    Raises: Invalid when there is no such cell, several cells and no name, or no simulated card.
    """
    cells = list(Cell.unscoped.filter(**({"name": cell_name} if cell_name else {})).order_by("name")[:2])
    if len(cells) != 1:
        raise Invalid(
            f"scheduling domain {cell_name!r} not found"
            if cell_name
            else "specify a scheduling domain with --cell"
        )
    flavors = Flavor.unscoped.filter(
        cluster__cell=cells[0], cluster__backend=BackendKind.SIMULATED, gpu_mode=GpuMode.WHOLE
    ).select_related("cluster")
    found = list(flavors.order_by("name", "pk"))
    if not found:
        raise Invalid(f"cell {cells[0]} has no simulated cluster with whole GPUs")
    cards = Device.unscoped.filter(node__flavor__in=found, node__present=True).count()
    return ImportPool(cells[0], found, cards)


@transaction.atomic
def places_ensure(*, acting_user: User, pool: ImportPool, shares: Mapping[str, int]) -> dict[str, Tenant]:
    """Return a workspace `vc-<name>` with one queue for each tenant; existing ones are not changed.

    `shares` are the cards that each tenant owned. If they add up to more than the pool has, they are scaled
    down.
    Raises: PermissionDenied.
    """
    root = Tenant.unscoped.filter(parent__isnull=True).first() or tenant_create(
        acting_user=acting_user, parent=None, kind=TenantKind.FOLDER, slug="root", name="Root"
    )
    total = sum(shares.values())
    places = {}
    for name, share in sorted(shares.items()):
        slug = dns_label(f"vc-{name}")
        workspace = Tenant.unscoped.filter(slug=slug).first() or tenant_create(
            acting_user=acting_user, parent=root, kind=TenantKind.WORKSPACE, slug=slug, name=f"VC {name}"
        )
        if not Queue.unscoped.filter(workspace=workspace, name=QUEUE).exists():
            cards = share if total <= pool.cards else share * pool.cards // total
            _queue(acting_user, pool, workspace, cards)
        places[name] = workspace
    return places


def _queue(user: User, pool: ImportPool, workspace: Tenant, cards: int) -> None:
    queue = queue_create(
        acting_user=user, cell=pool.cell, workspace=workspace, name=QUEUE, flavors=pool.flavors
    )
    amounts = []
    for index, flavor in enumerate(pool.flavors):
        # The whole share is in the first flavor; quota of other flavors can be borrowed.
        own = cards if index == 0 else 0
        amounts += [
            QuotaAmount(flavor, Resource.CPU, UNLIMITED),
            QuotaAmount(flavor, Resource.MEMORY, UNLIMITED),
            QuotaAmount(flavor, Resource.GPU_CARDS, own),
            QuotaAmount(flavor, Resource.GPU_CORES, own * 100),
            QuotaAmount(flavor, Resource.GPU_MEMORY, own * flavor.card_memory_mib),
        ]
    quota_set(acting_user=user, node=queue.node, amounts=amounts, on_top=True)
