"""The whole quota tree of a pool on one page, for admins who divide quota."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from clusters.models import Flavor
from foundation.core.errors import NotFound
from foundation.core.numbers import read_whole
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from frontend.components import view_models
from frontend.pages.quotas.rows import TITLES
from frontend.pages.quotas.tree_columns import TREE, TreeFacts, read_columns
from frontend.pages.quotas.tree_lines import TreeLayout, layout_of, node_of, tree_lines
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts.pools import name_pool
from quotas.selectors.tables.quota_tree import QuotaTreeView, tree_flavors
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

_LONGEST = 100


@require_GET
@login_required
@row_scope.read_transaction()
def show_tree(request: HttpRequest) -> HttpResponse:
    """Show all levels of one pool: `?pool=` names it, `?q=` filters names, `?open=` opens a node."""
    who = get_viewer(request)
    flavors = tree_flavors(who)
    set_frame(request, label=_("Quota tree"), trail=_("Quotas"))
    if not flavors:
        return render(request, "frontend/quotas/tree.html", {"pools": []})
    flavor = find_pool(flavors, request.GET.get("pool", ""))
    layout = layout_of(flavor, request.GET.get("resource", ""))
    view = QuotaTreeView(who, flavor, layout.resources)
    text = request.GET.get("q", "").replace("\x00", "").strip()[:_LONGEST]
    query = keep_query(request)
    left_out = False
    if text:
        rows, left_out = view.search_nodes(text)
    else:
        rows = view.read_first(node_of(request.GET.get("open", "")))
    facts = TreeFacts(who, view, read_columns(request), rows, layout.main_column.resource)
    page = {
        "q": text,
        "left_out": left_out,
        "may_view_pool": permissions.has_permission(who, Permission.CLUSTER_VIEW),
        "lines": tree_lines(layout, rows, query, facts),
        "columns": facts.columns,
        "offered": [column for column in TREE.columns if column.key not in ("name", "nominal")],
        "list_key": TREE.key,
        "query": urlencode({**query, "pool": pool_word(flavors, flavor)}),
        **frame_of(flavors, layout, request.GET.get("pool", "")),
        "resources": resource_chips(_("All resources"), (r for r in TITLES if r is not Resource.GPU_CORES)),
    }
    return render(request, "frontend/quotas/tree.html", page)


@require_GET
@login_required
@row_scope.read_transaction()
def tree_rows(request: HttpRequest, node: uuid.UUID) -> HttpResponse:
    """Return the children of one node as rows of the table; `?offset=` skips those that are shown already."""
    who = get_viewer(request)
    flavor = find_pool(tree_flavors(who), request.GET.get("pool", ""))
    layout = layout_of(flavor, request.GET.get("resource", ""))
    offset = read_whole(request.GET.get("offset", "0"), most=10**6) or 0
    view = QuotaTreeView(who, flavor, layout.resources)
    rows = view.read_children(node, offset)
    facts = TreeFacts(who, view, read_columns(request), rows, layout.main_column.resource)
    page = {
        "lines": tree_lines(layout, rows, keep_query(request), facts),
        "layout": layout,
        "columns": facts.columns,
    }
    return render(request, "frontend/quotas/tree_rows.html", page)


def find_pool(flavors: Sequence[Flavor], word: str) -> Flavor:
    """Return the pool of an address, by default the first one. Raises: NotFound."""
    if not word and flavors:
        return flavors[0]
    for flavor in flavors:
        if word in (pool_word(flavors, flavor), str(flavor.pk)):
            return flavor
    raise NotFound(_("Pool %(name)s not found.") % {"name": word})


def pool_word(flavors: Sequence[Flavor], flavor: Flavor) -> str:
    """Return the value of the address for a pool: its name, with its cluster's if the name is not unique."""
    return name_pool((flavor.cluster.name, flavor.name), [(one.cluster.name, one.name) for one in flavors])


def keep_query(request: HttpRequest) -> dict[str, str]:
    """Return the parameters that links of the page keep."""
    names = ("pool", "resource", "q")
    return {name: request.GET[name] for name in names if request.GET.get(name)}


def frame_of(flavors: Sequence[Flavor], layout: TreeLayout, asked: str) -> dict[str, Any]:
    """Return the values around the table: the pools to choose from, and the size of the pool.

    `asked` is the pool as the address names it.
    """
    return {
        "flavor": layout.flavor,
        "pool_word": pool_word(flavors, layout.flavor),
        "layout": layout,
        "ratio": layout.ratio,
        "pools": [
            view_models.Chip(
                label=word, value=asked if flavor == layout.flavor else "" if place == 0 else word
            )
            for place, flavor in enumerate(flavors)
            for word in (pool_word(flavors, flavor),)
        ],
        "exists": None
        if layout.pool_amount is None
        else layout.main_column.format_amount(layout.pool_amount),
    }


def resource_chips(first: str, others: Iterable[Resource]) -> list[view_models.Chip]:
    """Return the resources to choose from; `first` is the default of the address."""
    return [
        view_models.Chip(label=first),
        *(view_models.Chip(label=str(TITLES[resource]), value=resource.value) for resource in others),
    ]


def tree_of(who: User, flavor_id: uuid.UUID) -> Flavor:
    """Return the pool of a form. Raises: NotFound."""
    return find_pool(tree_flavors(who), str(flavor_id))
