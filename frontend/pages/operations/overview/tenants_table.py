"""The tenants table of the overview: the tree with quota, allocation and use of each."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _

from frontend.components.capacity import Meter
from frontend.pages.operations import labels
from frontend.shell import navigation
from frontend.texts import formats
from quotas.selectors.tenants.usage import FlavorUsage, TenantUsage
from tenants.models import Tenant, TenantKind

ROWS_MAX: Final = 200
"""The maximum number of rows: the table ends above the level that would exceed it."""
_DEEPEST: Final = 3  # the style sheet has no deeper indent; deeper levels have the same one


@dataclass(frozen=True, slots=True)
class TenantUse:
    """The used and allocated compute of the jobs with a reading, in percent points."""

    used: float = 0
    allocated: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPart:
    """One pool of a tenant; amounts in GPUs. GPUs of different pools are never added up."""

    name: str
    meter: Meter
    allocated: str
    nominal: str
    borrowed: str
    lent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRow:
    """One line. `utilised` is the used part of the allocated compute, in percent.

    Jobs without a reading are not counted; it is None if no job has one. `waiting_url` is the list of the
    pending jobs.
    """

    key: uuid.UUID
    name: str
    url: str
    indent: int
    parts: Sequence[PoolPart]
    utilised: float | None
    waiting: int
    waiting_url: str


def tenant_rows(
    usages: Sequence[TenantUsage],
    *,
    used: Mapping[uuid.UUID, TenantUse],
    waiting: Mapping[uuid.UUID, int],
    waiting_url: Callable[[Tenant], str],
    flavors: frozenset[uuid.UUID] | None = None,
) -> list[TenantRow]:
    """Return the tree in order, down to a level. `used` and `waiting` are per workspace; folders sum them up.

    `flavors` narrows quota and allocation to the pools of one cluster.
    """
    own = [used.get(usage.tenant.pk, TenantUse()) for usage in usages]
    above = _find_parents(usages)
    used_below = _sum_up([one.used for one in own], above)
    allocated_below = _sum_up([one.allocated for one in own], above)
    waiting_below = _sum_up([waiting.get(usage.tenant.pk, 0) for usage in usages], above)
    deepest = find_deepest(usages)
    return [
        _row(
            usage,
            _of(usage, flavors),
            TenantUse(used_below[place], allocated_below[place]),
            int(waiting_below[place]),
            waiting_url,
        )
        for place, usage in enumerate(usages)
        if usage.depth <= deepest
    ]


def find_deepest(usages: Sequence[TenantUsage]) -> int:
    """Return the deepest level that is shown; 0 is that of the root."""
    rows, deepest = 0, 0
    for level, count in sorted(Counter(usage.depth for usage in usages).items()):
        rows += count
        if rows <= ROWS_MAX:
            deepest = level
    return deepest


def _find_parents(usages: Sequence[TenantUsage]) -> list[int | None]:
    """Return the position of the parent of each tenant; None if it is out of sight."""
    places = {usage.tenant.pk: place for place, usage in enumerate(usages)}
    return [places.get(pk) if (pk := usage.tenant.parent_id) else None for usage in usages]


def _sum_up(own: Sequence[float], above: Sequence[int | None]) -> list[float]:
    """Add each tenant's amount to all above it. Children come after parents, so one pass from the end is
    enough.
    """
    sums = list(own)
    for place in range(len(sums) - 1, -1, -1):
        if (parent := above[place]) is not None:
            sums[parent] += sums[place]
    return sums


def _of(usage: TenantUsage, flavors: frozenset[uuid.UUID] | None) -> list[FlavorUsage]:
    return [part for part in usage.flavors if flavors is None or part.flavor.pk in flavors]


def _row(
    usage: TenantUsage,
    pools: Iterable[FlavorUsage],
    use: TenantUse,
    waiting: int,
    waiting_url: Callable[[Tenant], str],
) -> TenantRow:
    parts = [part for part in pools if part.nominal != 0 or part.reserved]
    tenant = usage.tenant
    is_workspace = tenant.kind == TenantKind.WORKSPACE
    # Measurements are known by workspace, not by pool.
    used = use.used if use.allocated and len(parts) == 1 else None
    return TenantRow(
        key=tenant.pk,
        name=tenant.name,
        url=navigation.find_address("frontend:workspace-overview", workspace=tenant.slug)
        if is_workspace
        else "",
        indent=min(usage.depth, _DEEPEST),
        parts=[_part(part, used, use.allocated) for part in parts],
        utilised=labels.compute_percent(use.used, use.allocated),
        waiting=waiting,
        waiting_url=waiting_url(tenant) if waiting else "",
    )


def _part(part: FlavorUsage, used: float | None, measured: float) -> PoolPart:
    return PoolPart(
        name=part.flavor.name,
        meter=Meter(
            nominal=(part.nominal or 0) / 100,
            allocated=part.reserved / 100,
            used=None if used is None else min(used, part.reserved) / 100,
            borrowed=part.borrowed / 100,
            lent=part.lent / 100,
            unit=_("GPUs"),
            is_partly_measured=measured < part.reserved,
        ),
        allocated=formats.format_gpus(part.reserved),
        nominal=_("unlimited") if part.nominal is None else formats.format_gpus(part.nominal),
        borrowed=formats.format_signed_gpus(part.borrowed),
        lent=formats.format_signed_gpus(-part.lent),
    )
