"""The list of tenants, in the order of the tree or sorted, and that of the tenants in a folder."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from foundation.web.listing import Column, ColumnKind, filter_rows, sort_rows
from frontend.components import view_models
from frontend.lists.batch import BatchAct, BatchItem, answer_batch, is_batch
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, PageList, answer_list, read_list
from frontend.pages.setup.uninitialized import lacks_domain, uninitialized_list
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from quotas.selectors.tenants.team import team_parents
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, TenantKind, User
from tenants.selectors.tenant import tenant_archive_preview, tenant_get
from tenants.selectors.tenant_tree import (
    TENANT_COLUMNS,
    TreePlace,
    count_below,
    order_as_tree,
    tenant_query,
    tenants_at,
)
from tenants.services.tenant import tenant_archive, tenant_restore

DEEPEST: Final = 3
"""The deepest level with an indent of its own in the style sheet; deeper levels have the same indent."""
_KINDS: Final = {
    TenantKind.WORKSPACE.value: gettext_lazy("Workspace"),
    TenantKind.FOLDER.value: gettext_lazy("Folder"),
}
KIND_CHOICES: Final = list(_KINDS.items())


@dataclass(frozen=True, slots=True)
class TenantLine:
    """One row of the list. `below` says how many tenants a folder has; None for a workspace."""

    tenant: Tenant
    indent: int
    kind: str
    below: str | None
    fixed: bool

    @property
    def id(self) -> uuid.UUID:
        return self.tenant.pk

    @property
    def title(self) -> str:
        return self.tenant.name

    @property
    def url(self) -> str:
        return tenant_address(self.tenant)

    @property
    def parent(self) -> str:
        return self.tenant.parent.name if self.tenant.parent else ""


TENANTS: Final = ListDeclaration(
    key="tenants",
    title=gettext_lazy("Tenants"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Name"), sort="name", text=lambda line: line.tenant.name),
        ListColumn(key="kind", label=gettext_lazy("Type"), sort="kind", text=lambda line: line.kind),
        ListColumn(key="slug", label=gettext_lazy("ID"), sort="slug", text=lambda line: line.tenant.slug),
        ListColumn(
            key="parent", label=gettext_lazy("Parent folder"), shown=False, text=lambda line: line.parent
        ),
        ListColumn(key="below", label=gettext_lazy("Child tenants"), text=lambda line: line.below),
        ListColumn(
            key="created",
            label=gettext_lazy("Created"),
            number=True,
            sort="created_at",
            text=lambda line: line.tenant.created_at,
        ),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Name")),
        "kind": FilterField(label=gettext_lazy("Type"), choices=KIND_CHOICES),
        "slug": FilterField(label=gettext_lazy("ID")),
        "folder": FilterField(label=gettext_lazy("Parent folder")),
        "created_at": FilterField(label=gettext_lazy("Created")),
    },
    fields={
        **TENANT_COLUMNS,
        "folder": Column("parent.name"),
        "created_at": Column("created_at", ColumnKind.TIME),
    },
    parameters=("q",),
    size=50,
    every_s=30,
)


@login_required
def show_tenants(request: HttpRequest) -> HttpResponse:
    """Show all tenants in sight; POST archives or restores some."""
    who = get_viewer(request)
    set_frame(request, label=_("All tenants"), trail=_("Operations"))
    acts = batch_acts(who)
    if is_batch(request):
        find = partial(_find, who)
        return answer_batch(request, acts=acts, find=find, back=reverse("frontend:ops-tenants"))
    listing = read_list(request, TENANTS, {"archived": ["1"]})
    return answer_tenants(
        request,
        listing,
        tenant_query(viewer=who, archived=listing.query.get("archived") == "1"),
        acts=acts,
        template="frontend/tenancy/tenants.html",
        context=lambda: {
            "may_add_team": bool(team_parents(who)),
            "chips": [
                view_models.Chip(label=_("Active")),
                view_models.Chip(label=_("Include archived"), value="1"),
            ],
            "chips_name": "archived",
            "chips_label": _("Show"),
            "empty_list": _empty_list(who),
        },
    )


def _empty_list(who: User) -> EmptyList:
    if lacks_domain(who):
        return uninitialized_list()
    return EmptyList(
        _("No tenants"), _("Ask a platform, folder or workspace admin for access."), icon="boxes"
    )


def answer_tenants(
    request: HttpRequest,
    listing: PageList,
    rows: QuerySet[Tenant],
    *,
    acts: Sequence[BatchAct],
    template: str,
    context: Callable[[], Mapping[str, Any]],
    status: int = 200,
) -> HttpResponse:
    """Respond with a list of tenants on a page of `template`."""
    who = get_viewer(request)
    return answer_list(
        request,
        listing,
        list_places(listing, rows),
        partial(_lines, who, tenant_query(viewer=who, archived=True), bool(acts)),
        template=template,
        context=lambda: {
            "row": "frontend/tenancy/tenant_row.html",
            "acts": acts,
            "batch_url": reverse("frontend:ops-tenants"),
            "q": listing.query.get("q", ""),
            **context(),
        },
        status=status,
    )


def list_places(listing: PageList, rows: QuerySet[Tenant]) -> list[TreePlace]:
    """Return the tenants that match the address: in the order of the tree unless it names another one."""
    rows = filter_rows(rows, listing.conditions)
    text = listing.query.get("q", "").strip()
    if text:
        rows = rows.filter(Q(name__icontains=text) | Q(slug__icontains=text))
    if not listing.sort:
        return order_as_tree(rows)
    ordered = sort_rows(rows, listing.sort, listing.declared.fields)
    return [TreePlace(pk) for pk in ordered.values_list("pk", flat=True)]


def _lines(
    who: User, seen: QuerySet[Tenant], selectable: bool, places: Sequence[TreePlace]
) -> list[TenantLine]:
    tenants = tenants_at(places)
    below = count_below(seen.filter(archived_at__isnull=True), list(tenants.values()))
    return [
        TenantLine(
            tenant := tenants[place.pk],
            min(place.depth, DEEPEST),
            str(_KINDS[tenant.kind]),
            _count_word(below[tenant.pk]) if tenant.pk in below else None,
            not selectable or not _decides(who, tenant),
        )
        for place in places
        if place.pk in tenants
    ]


def _count_word(counts: Mapping[str, int]) -> str:
    folders, workspaces = counts[TenantKind.FOLDER], counts[TenantKind.WORKSPACE]
    words = (
        (folders, ngettext("%(n)s folder", "%(n)s folders", folders)),
        (workspaces, ngettext("%(n)s workspace", "%(n)s workspaces", workspaces)),
    )
    return _(", ").join(word % {"n": number} for number, word in words if number)


def _decides(who: User, tenant: Tenant) -> bool:
    """Return whether the viewer may archive a tenant, by editing tenants above it."""
    return tenant.parent is not None and permissions.has_permission(
        who, Permission.TENANT_EDIT, tenant.parent
    )


def batch_acts(who: User) -> list[BatchAct]:
    """Return the actions of a viewer who edits tenants in any folder; each tenant is checked again."""
    folders = permissions.tenants_with(who, Permission.TENANT_EDIT).filter(kind=TenantKind.FOLDER)
    if not folders.exists():
        return []
    return [
        BatchAct(
            key="archive",
            label=_("Archive"),
            title=_("Archive tenants"),
            act=lambda tenant, _choice: tenant_archive(
                acting_user=who, tenant=tenant, expected=tenant.version
            ),
            danger=True,
            note=_(
                "The tenant and its children are hidden and accept no new jobs. Nothing is deleted. "
                "You can restore it."
            ),
            icon="archive",
            fits=lambda line: not line.tenant.is_archived,
        ),
        BatchAct(
            key="restore",
            label=_("Restore"),
            title=_("Restore tenants"),
            act=lambda tenant, _choice: tenant_restore(
                acting_user=who, tenant=tenant, expected=tenant.version
            ),
            icon="archive-restore",
            fits=lambda line: line.tenant.is_archived,
        ),
    ]


def _find(who: User, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    found = []
    for pk in ids:
        tenant = tenant_get(viewer=who, tenant_id=pk)
        effects = tenant_archive_preview(viewer=who, tenant=tenant) if _decides(who, tenant) else ()
        found.append(
            BatchItem(
                id=pk,
                name=tenant.name,
                row=tenant,
                state=_("archived") if tenant.is_archived else _("Active"),
                losses=[effect.text for effect in effects],
                version=tenant.version,
            )
        )
    return found


def tenant_address(tenant: Tenant) -> str:
    """Return the address of the page of a tenant."""
    return reverse("frontend:ops-tenant", args=[tenant.pk])
