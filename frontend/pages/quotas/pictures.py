"""Diagrams of the quota of a pool: sunburst, treemap, and flows between lenders and borrowers."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from clusters.models import Flavor, GpuMode
from foundation.sql import row_scope
from frontend.charts import flow_chart, sunburst_chart, treemap_chart
from frontend.components import view_models
from frontend.pages.quotas.picture_parts import (
    ALLOCATED,
    MEASURES,
    NOMINAL,
    USED,
    Used,
    flow_rows,
    part_words,
    picture_flows,
    picture_sectors,
    summary_of,
    table_rows,
)
from frontend.pages.quotas.rows import TITLES
from frontend.pages.quotas.totals import totals_context
from frontend.pages.quotas.tree import find_pool, frame_of, resource_chips
from frontend.pages.quotas.tree_lines import TreeLayout, layout_of
from frontend.pages.quotas.tree_use import TreeUse
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from quotas.selectors.tables.quota_flows import QuotaPicture
from quotas.selectors.tables.quota_tree import QuotaTreeView, tree_flavors


@require_GET
@login_required
@row_scope.read_transaction()
def show_pictures(request: HttpRequest) -> HttpResponse:
    """Show the quota of the pool that `?pool=` names; `?measure=allocated` draws the allocated part."""
    who = get_viewer(request)
    flavors = tree_flavors(who)
    set_frame(request, label=_("Charts"), trail=_("Quotas"))
    if not flavors:
        return render(request, "frontend/quotas/pictures.html", {"pools": []})
    flavor = find_pool(flavors, request.GET.get("pool", ""))
    layout = layout_of(flavor, request.GET.get("resource", ""))
    measure = request.GET.get("measure", "")
    measure = measure if measure in MEASURES else NOMINAL
    resource = layout.main_column.resource
    view = QuotaTreeView(who, flavor, [resource])
    picture, use = QuotaPicture(view, resource), TreeUse(who, view, resource)
    used = {
        one.node_id: use.find_use(one.node_id, one.tenant_id, one.allocated + one.borrowed)
        for one in picture.slices
    }
    page = {
        **frame_of(flavors, layout, request.GET.get("pool", "")),
        "resources": _resource_chips(flavor),
        **_charts(picture, layout, measure, used),
        "measures": [
            view_models.Chip(label=_("Nominal quota")),
            view_models.Chip(label=_("Allocated"), value=ALLOCATED),
            view_models.Chip(label=_("Used of nominal"), value=USED),
        ],
        "unlimited": [one.name for one in picture.slices if one.nominal is None],
        "measure": measure,
        **totals_context(who),
    }
    return render(request, "frontend/quotas/pictures.html", page)


def _resource_chips(flavor: Flavor) -> list[view_models.Chip]:
    """Return the resources of a pool; each diagram shows one, by default the first."""
    found = [one for one in TITLES if flavor.gpu_mode != GpuMode.NONE or not one.startswith("gpu.")]
    return resource_chips(str(TITLES[found[0]]), found[1:])


def _charts(picture: QuotaPicture, layout: TreeLayout, measure: str, used: Used) -> dict[str, Any]:
    column, words = layout.main_column, part_words()
    sectors = picture_sectors(picture.slices, measure, column, used)
    title = _("Quota of %(pool)s") % {"pool": layout.flavor.name}
    summary = summary_of(picture.slices, column, title, used)
    parts = [words["allocated"], _("Used"), words["borrowed"], words["lent"], words["free"]]
    table = ([_("Tenant"), _("Nominal quota"), *parts], table_rows(picture.slices, column, used))
    found: dict[str, Any] = {}
    if sectors:
        unit = column.unit_word
        found["sunburst"] = sunburst_chart("quota-sunburst", sectors, unit=unit, summary=summary, table=table)
        found["treemap"] = treemap_chart("quota-treemap", sectors, unit=unit, summary=summary, table=table)
    if picture.flows:
        ends, flows = picture_flows(picture.slices, picture.flows, column)
        rows = flow_rows(picture.slices, picture.flows, column)
        said = _("Lent and borrowed quota: %(first)s") % {
            "first": _("; ").join(f"{name} {amount}" for name, amount in rows[:5])
        }
        found["flows"] = flow_chart(
            "quota-flows",
            ends,
            flows,
            unit=column.unit_word,
            summary=said,
            table=([_("Flow"), column.unit_word], rows),
        )
    return found
