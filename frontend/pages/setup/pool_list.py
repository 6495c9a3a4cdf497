"""The pools of all clusters: their size, their free part, and their assigned quota."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import Flavor
from clusters.selectors.capacity import FlavorCapacity, capacity_now
from clusters.selectors.flavor import FLAVOR_COLUMNS, flavor_query
from foundation.core.quantities import WHOLE_CARD
from foundation.web.listing import filter_rows
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.shell.page_shell import get_viewer, operator_required, set_frame
from frontend.texts.formats import MISSING, format_gpus
from frontend.texts.labels import GPU_MODES
from quotas.selectors.limits.pool_limits import sum_nominals
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User


@dataclass(frozen=True, slots=True)
class PoolListLine:
    """A pool in the list. `nominal` is in percent points of a GPU, None is unlimited; it is not shown to a
    reader who may not see the quota of all tenants.
    """

    flavor: Flavor
    url: str
    mode: str
    capacity: FlavorCapacity
    nominal: int | None
    shows_nominal: bool

    @property
    def id(self) -> uuid.UUID:
        return self.flavor.pk

    @property
    def title(self) -> str:
        return self.flavor.name

    @property
    def allocated_percent(self) -> float | None:
        """The allocated part of the GPUs' compute; None without GPUs."""
        return self.capacity.cards_allocated / self.capacity.cards if self.capacity.cards else None

    @property
    def memory_percent(self) -> float | None:
        """The allocated part of the GPUs' memory; None without GPUs."""
        whole = self.capacity.memory_mib
        return 100 * self.capacity.memory_allocated_mib / whole if whole else None

    @property
    def nominal_text(self) -> str:
        """The nominal quota of all tenants in GPUs."""
        if not self.shows_nominal:
            return MISSING
        return _("unlimited") if self.nominal is None else format_gpus(self.nominal)

    @property
    def is_overcommitted(self) -> bool:
        """Return whether more quota is assigned than there are GPUs."""
        return (
            self.shows_nominal
            and self.nominal is not None
            and self.nominal > self.capacity.cards * WHOLE_CARD
        )


_ORDERS: Final = {
    "name": ("name", "cluster__name", "pk"),
    "cluster": ("cluster__name", "name", "pk"),
    "model": ("card_model", "name", "pk"),
}
POOLS: Final = ListDeclaration(
    key="pools",
    title=gettext_lazy("Pools"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Pool"), sort="name", text=lambda line: line.flavor.name),
        ListColumn(
            key="cluster",
            label=gettext_lazy("Cluster"),
            sort="cluster",
            text=lambda line: line.flavor.cluster.name,
        ),
        ListColumn(
            key="model",
            label=gettext_lazy("GPU model"),
            sort="model",
            text=lambda line: line.flavor.card_model,
        ),
        ListColumn(key="mode", label=gettext_lazy("Mode"), text=lambda line: line.mode),
        ListColumn(
            key="nodes", label=gettext_lazy("Nodes"), number=True, text=lambda line: line.capacity.nodes
        ),
        ListColumn(
            key="gpus", label=gettext_lazy("GPUs"), number=True, text=lambda line: line.capacity.cards
        ),
        ListColumn(
            key="allocated",
            label=gettext_lazy("Allocated"),
            number=True,
            text=lambda line: line.allocated_percent,
        ),
        ListColumn(
            key="memory",
            label=gettext_lazy("GPU memory allocated"),
            number=True,
            shown=False,
            text=lambda line: line.memory_percent,
        ),
        ListColumn(
            key="free", label=gettext_lazy("Free GPUs"), number=True, text=lambda line: line.capacity.free
        ),
        ListColumn(
            key="node",
            label=gettext_lazy("On one node"),
            number=True,
            text=lambda line: line.capacity.one_node,
        ),
        ListColumn(
            key="rack",
            label=gettext_lazy("In one rack"),
            number=True,
            shown=False,
            text=lambda line: line.capacity.one_rack,
        ),
        ListColumn(
            key="unhealthy",
            label=gettext_lazy("Unhealthy GPUs"),
            number=True,
            text=lambda line: line.capacity.unhealthy,
        ),
        ListColumn(
            key="closed",
            label=gettext_lazy("On closed nodes"),
            number=True,
            shown=False,
            text=lambda line: line.capacity.closed,
        ),
        ListColumn(
            key="foreign",
            label=gettext_lazy("Used outside Allotment"),
            number=True,
            shown=False,
            text=lambda line: line.capacity.foreign,
        ),
        ListColumn(
            key="nominal",
            label=gettext_lazy("Nominal quota"),
            number=True,
            text=lambda line: line.nominal_text,
        ),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Pool")),
        "cluster": FilterField(label=gettext_lazy("Cluster")),
        "card_model": FilterField(label=gettext_lazy("GPU model")),
        "gpu_mode": FilterField(label=gettext_lazy("Mode"), choices=list(GPU_MODES.items())),
    },
    fields=FLAVOR_COLUMNS,
    default_sort="name",
)


@operator_required
def show_pools(request: HttpRequest) -> HttpResponse:
    """Render the pools of all clusters."""
    who = get_viewer(request)
    set_frame(request, label=_("Pools"), trail=_("Operations"))
    listing = read_list(request, POOLS)
    order = _ORDERS[listing.sort.removeprefix("-")]
    sign = "-" if listing.sort.startswith("-") else ""
    rows = filter_rows(flavor_query(viewer=who), listing.conditions).order_by(f"{sign}{order[0]}", *order[1:])
    none = EmptyList(
        _("No pools"),
        _("Add a cluster and create its pools."),
        icon="boxes",
        url=reverse("frontend:ops-clusters"),
        action=_("Clusters"),
    )
    return answer_list(
        request,
        listing,
        rows,
        partial(_lines, who),
        template="frontend/setup/pool_list.html",
        context=lambda: {"row": "frontend/setup/pool_row.html", "empty_list": none},
    )


def _lines(who: User, flavors: Sequence[Flavor]) -> list[PoolListLine]:
    capacities = {one.flavor.pk: one for one in capacity_now(viewer=who)} if flavors else {}
    shows = permissions.has_permission(who, Permission.QUOTA_VIEW)
    nominals = sum_nominals(flavors) if shows else {}
    return [
        PoolListLine(
            flavor=flavor,
            url=reverse("frontend:ops-flavor", args=[flavor.cluster.name, flavor.name]),
            mode=str(GPU_MODES[flavor.gpu_mode]),
            capacity=capacities[flavor.pk],
            nominal=nominals.get(flavor.pk, 0),
            shows_nominal=shows,
        )
        for flavor in flavors
        if flavor.pk in capacities  # created between the two reads
    ]
