"""The tenants table of the overview: the tree with quota, allocation and use of each."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _

from frontend import navigation
from frontend.capacity import Meter
from frontend.pages.ops import words
from quotas.selectors.usage import FlavorUsage, TenantUsage
from tenants.models import TenantKind

_DEEPEST: Final = 3  # the style sheet indents this far; deeper levels line up below


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRow:
    """One line; amounts in cards. `utilised` is what is used of what is allocated, in percent."""

    key: uuid.UUID
    name: str
    url: str
    indent: int
    meter: Meter
    allocated: str
    nominal: str
    utilised: float | None
    borrowed: str
    lent: str
    waiting: int


def tenant_rows(
    usages: Sequence[TenantUsage],
    *,
    used: Mapping[uuid.UUID, float],
    waiting: Mapping[uuid.UUID, int],
    flavors: frozenset[uuid.UUID] | None = None,
) -> list[TenantRow]:
    """The tree in order. `used` (percent points) and `waiting` are per workspace; folders sum them up.

    `flavors` narrows quota and allocation to the pools of one cluster.
    """
    used_below = _below(usages, used)
    waiting_below = _below(usages, waiting)
    return [
        _row(usage, _of(usage, flavors), used_below[usage.tenant.pk], int(waiting_below[usage.tenant.pk]))
        for usage in usages
    ]


def _below(usages: Sequence[TenantUsage], own: Mapping[uuid.UUID, float]) -> Counter[uuid.UUID]:
    """Add each tenant's amount to all above it: children come after parents, so one pass upwards does."""
    sums: Counter[uuid.UUID] = Counter()
    for usage in reversed(usages):
        tenant = usage.tenant
        sums[tenant.pk] += own.get(tenant.pk, 0)  # type: ignore[assignment]  # percent points may be fractions
        if tenant.parent_id is not None:
            sums[tenant.parent_id] += sums[tenant.pk]
    return sums


def _of(usage: TenantUsage, flavors: frozenset[uuid.UUID] | None) -> list[FlavorUsage]:
    return [part for part in usage.flavors if flavors is None or part.flavor.pk in flavors]


def _row(usage: TenantUsage, pools: Iterable[FlavorUsage], used: float, waiting: int) -> TenantRow:
    parts = list(pools)
    tenant = usage.tenant
    nominal = sum(part.nominal or 0 for part in parts)
    allocated = sum(part.allocated for part in parts)
    borrowed = sum(part.borrowed for part in parts)
    lent = sum(part.lent for part in parts)
    unlimited = any(part.nominal is None for part in parts)
    is_workspace = tenant.kind == TenantKind.WORKSPACE
    return TenantRow(
        key=tenant.pk,
        name=tenant.name,
        url=navigation.address("frontend:workspace-overview", workspace=tenant.slug) if is_workspace else "",
        indent=min(usage.depth, _DEEPEST),
        meter=Meter(
            nominal=nominal / 100,
            allocated=allocated / 100,
            used=min(used, allocated) / 100,
            borrowed=borrowed / 100,
            lent=lent / 100,
            unit=_("GPUs"),
        ),
        allocated=words.cards(allocated),
        nominal=_("unlimited") if unlimited else words.cards(nominal),
        utilised=words.share(used, allocated),
        borrowed=words.signed_cards(borrowed / 100),
        lent=words.signed_cards(-lent / 100),
        waiting=waiting,
    )
