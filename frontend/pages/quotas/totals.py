"""The sums of quota over all pools: tiles, a chart by pool, and the workspaces that use the least of their
quota.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from frontend.charts import Bars, group_bars
from frontend.texts import formats
from quotas.selectors.tenants.totals import QuotaTotals, quota_totals
from tenants.models import User

LOWEST_MAX: Final = 10


def totals_context(viewer: User) -> dict[str, Any]:
    """Return the tiles, the chart and the table of the quota in the viewer's sight."""
    totals = quota_totals(viewer)
    return {
        "tiles": _tiles(totals),
        "pool_bars": _bars(totals) if totals.pools else None,
        "lowest": [
            {
                "name": one.workspace.name,
                "url": f"{reverse('frontend:ops-quotas')}?{urlencode({'tenant': one.workspace.slug})}",
                "nominal": formats.format_gpus(one.nominal),
                "reserved": formats.format_gpus(one.reserved),
                "rate": formats.format_percent(one.rate),
            }
            for one in totals.workspaces[:LOWEST_MAX]
        ],
    }


def _tiles(totals: QuotaTotals) -> list[dict[str, str]]:
    nominal = totals.nominal
    quota = _("unlimited") if nominal is None else formats.format_gpus(nominal)
    numbers = {"quota": quota, "capacity": formats.format_gpus(totals.capacity)}
    held = {"held": formats.format_gpus(totals.reserved), "quota": quota}
    gpus = totals.pending_gpus
    return [
        {
            "label": _("Quota / capacity"),
            "value": _percent(nominal, totals.capacity),
            "meaning": _("%(quota)s of %(capacity)s GPUs") % numbers,
        },
        {
            "label": _("Allocated / quota"),
            "value": _percent(totals.reserved, nominal),
            "meaning": _("%(held)s of %(quota)s GPUs") % held,
        },
        {
            "label": _("Pending jobs"),
            "value": formats.format_number(totals.pending_jobs),
            "meaning": ngettext("%(n)s GPU requested", "%(n)s GPUs requested", gpus)
            % {"n": formats.format_number(gpus)},
        },
    ]


def _percent(part: int | None, whole: int | None) -> str:
    return formats.format_percent(100 * part / whole if part is not None and whole else None)


def _bars(totals: QuotaTotals) -> Any:
    parts = [
        Bars(name=_("Capacity"), values=[pool.capacity / 100 for pool in totals.pools], color="free"),
        Bars(
            name=_("Nominal quota"),
            values=[None if pool.nominal is None else pool.nominal / 100 for pool in totals.pools],
            color="held",
        ),
        Bars(name=_("Allocated"), values=[pool.reserved / 100 for pool in totals.pools], color="allocated"),
        Bars(name=_("Pending"), values=[pool.pending / 100 for pool in totals.pools], color="borrowed"),
    ]
    names = [pool.flavor.name for pool in totals.pools]
    return group_bars("quota-pools", names, parts, unit=_("GPUs"), title=_("Pool"))
