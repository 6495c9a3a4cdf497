"""The tenant tree: who stands below whom, and for each tenant its name, place, members and end."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError, NotFound, PermissionDenied
from frontend.components import view_models
from frontend.pages.tenancy import members
from frontend.shell.form_actions import run_change, show_refusal, version_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts import formats
from quotas.selectors.team import team_parents
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.hooks.tree_effects import Effect
from tenants.models import Tenant, TenantKind, User
from tenants.selectors.tenant import tenant_archive_preview, tenant_get, tenant_list, tenants_above
from tenants.selectors.tenant_move import MovePreview, tenant_move_preview
from tenants.services.tenant import tenant_archive, tenant_create, tenant_rename, tenant_restore
from tenants.services.tenant_move import tenant_move

_QUOTA: Final = "QUOTA_MOVES"
_DEEPEST: Final = 3  # the style sheet indents this far; deeper levels line up below


@dataclass(frozen=True, slots=True)
class TenantTreeRow:
    """One line of the tree. `folders` and `workspaces` count what is below it."""

    tenant: Tenant
    indent: int
    url: str
    folders: int
    workspaces: int


class NewTenantForm(forms.Form):
    """A folder or workspace to be."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=120)
    kind = forms.ChoiceField(
        label=gettext_lazy("Type"),
        choices=[
            ("", gettext_lazy("Select a type")),
            (TenantKind.WORKSPACE, gettext_lazy("Workspace (runs jobs)")),
            (TenantKind.FOLDER, gettext_lazy("Folder (contains tenants)")),
        ],
    )
    slug = forms.CharField(
        label=gettext_lazy("ID"),
        max_length=63,
        required=False,
        help_text=gettext_lazy(
            "Used in URLs and namespaces. Can't be changed later. Generated from the name if empty."
        ),
    )


@login_required
def show_tree(request: HttpRequest) -> HttpResponse:
    """The whole tree that the viewer may see."""
    who = get_viewer(request)
    archived = request.GET.get("archived") == "1"
    shown = tenant_list(viewer=who, archived=archived)
    set_frame(request, label=_("All tenants"), trail=_("Operations"))
    page = {
        "rows": _rows(shown),
        "may_add_team": bool(team_parents(who)),
        "chips": [
            view_models.Chip(label=_("Active")),
            view_models.Chip(label=_("Include archived"), value="1"),
        ],
    }
    return render(request, "frontend/tenancy/tree.html", page)


def _rows(shown: list[Tenant]) -> list[TenantTreeRow]:
    depth: dict[uuid.UUID, int] = {}
    for tenant in shown:
        depth[tenant.pk] = depth[tenant.parent_id] + 1 if tenant.parent_id in depth else 0
    folders: Counter[str] = Counter()
    workspaces: Counter[str] = Counter()
    for tenant in shown:
        (workspaces if tenant.is_workspace else folders).update(tenant.path.strip("/").split("/")[:-1])
    return [
        TenantTreeRow(
            tenant,
            min(depth[tenant.pk], _DEEPEST),
            _address(tenant),
            folders[str(tenant.pk)],
            workspaces[str(tenant.pk)],
        )
        for tenant in shown
    ]


def _address(tenant: Tenant) -> str:
    return reverse("frontend:ops-tenant", args=[tenant.pk])


@login_required
def show_tenant(request: HttpRequest, tenant: uuid.UUID) -> HttpResponse:
    """One tenant; POST creates below it, renames, moves, archives or restores it, or changes members."""
    who = get_viewer(request)
    place = tenant_get(viewer=who, tenant_id=tenant)
    if request.method == "POST":
        answer = _act(request, who, place)
        if answer is None:
            return redirect(_address(place))
        if isinstance(answer, Tenant):
            return redirect(_address(answer))
        return _show(request, who, place, answer)
    return _show(request, who, place, None)


def _show(
    request: HttpRequest, who: User, place: Tenant, refused: NewTenantForm | members.AddMemberForm | None
) -> HttpResponse:
    above = place.parent
    decides = above is not None and permissions.has_permission(who, Permission.TENANT_EDIT, above)
    edits = permissions.has_permission(who, Permission.TENANT_EDIT, place)
    shown = tenant_list(viewer=who)
    set_frame(request, label=_("All tenants"), trail=_("Operations"))
    page: dict[str, Any] = {
        "place": place,
        "crumbs": _crumbs(who, place),
        "form": refused if isinstance(refused, NewTenantForm) else NewTenantForm(),
        "children": [row for row in _rows(shown) if row.tenant.parent_id == place.pk],
        "may_add": edits and not place.is_workspace and not place.is_archived,
        "may_add_team": any(folder.pk == place.pk for folder in team_parents(who)),
        "may_rename": edits and not place.is_archived,
        "may_move": decides and not place.is_archived,
        "may_archive": decides,
        "may_see_quota": permissions.has_permission(who, Permission.QUOTA_VIEW, place),
        "targets": _targets(who, place, shown) if decides else [],
        "effects": tenant_archive_preview(viewer=who, tenant=place) if decides else [],
        "asked": request.GET.get("to", ""),
        **_previewed(_preview(request, who, place)),
        **members.card_of(
            who, place, _address(place), refused if isinstance(refused, members.AddMemberForm) else None
        ),
    }
    return render(request, "frontend/tenancy/tenant.html", page, status=400 if refused else 200)


def _crumbs(who: User, place: Tenant) -> list[view_models.Crumb]:
    """The tenants above, as far as the viewer may see them."""
    above = tenants_above(viewer=who, tenant=place)
    crumbs = [view_models.Crumb(label=one.name, url=_address(one)) for one in above]
    return [view_models.Crumb(label=_("Tenants"), url=reverse("frontend:ops-tenants")), *crumbs]


def crumbs_to(place: Tenant | None) -> list[view_models.Crumb]:
    """The way to a page below that of a tenant, or of the whole platform."""
    tenants = view_models.Crumb(label=_("Tenants"), url=reverse("frontend:ops-tenants"))
    return [tenants, view_models.Crumb(label=place.name, url=_address(place))] if place else [tenants]


def _targets(who: User, place: Tenant, shown: Sequence[Tenant]) -> list[Tenant]:
    """Folders that it could move below."""
    return [
        folder
        for folder in shown
        if not folder.is_workspace
        and not place.contains_tenant(folder)
        and folder.pk != place.parent_id
        and permissions.has_permission(who, Permission.TENANT_EDIT, folder)
    ]


def _preview(request: HttpRequest, who: User, place: Tenant) -> MovePreview | None:
    """Preview the move that the address describes; a refusal is shown instead."""
    wanted = request.GET.get("to")
    if not wanted:
        return None
    try:
        parent = tenant_get(viewer=who, tenant_id=members.id_of(wanted))
        return tenant_move_preview(viewer=who, tenant=place, parent=parent)
    except (NotFound, PermissionDenied):
        raise
    except AllotmentError as error:
        messages.error(request, error.detail)
        return None


def _previewed(preview: MovePreview | None) -> dict[str, Any]:
    """The preview with its quota as lines of a table, and its other effects as sentences."""
    found = preview.effects if preview else ()
    return {
        "preview": preview,
        "quota_moves": [_quota_line(e) for e in found if e.code == _QUOTA and e.numbers["moves"] is not None],
        "other_effects": [effect for effect in found if effect.code != _QUOTA],
    }


def _quota_line(effect: Effect) -> dict[str, Any]:
    numbers, resource = effect.numbers, effect.numbers["resource"]

    def format_amount(amount: int | None) -> str:
        if amount is None:
            return _("unlimited")
        return formats.format_memory(amount) if resource.endswith("memory") else formats.format_number(amount)

    return {
        "flavor": numbers["flavor"],
        "resource": resource,
        "moves": format_amount(numbers["moves"]),
        "old": [format_amount(amount) for amount in numbers["old_parent"]],
        "new": [format_amount(amount) for amount in numbers["new_parent"]],
    }


def _act(
    request: HttpRequest, who: User, place: Tenant
) -> Tenant | NewTenantForm | members.AddMemberForm | None:
    """Do what the form asks for; the form again where it is wrong, or the tenant that was created."""
    asked, what = request.POST, request.POST.get("do")
    words, version = {"name": place.name}, version_of(request)
    now = partial(_now, place)
    if what == "new":
        return _new(request, who, place)
    if what == "rename":
        name = asked.get("name", "").strip()
        rename = partial(tenant_rename, acting_user=who, tenant=place, name=name, expected=version)
        run_change(request, rename, _("Renamed to %(name)s") % {"name": name}, now=now)
    elif what == "move":
        parent = tenant_get(viewer=who, tenant_id=members.id_of(asked.get("to", "")))
        move = partial(tenant_move, acting_user=who, tenant=place, parent=parent, expected=version)
        words["parent"] = parent.name
        run_change(request, move, _("%(name)s moved to %(parent)s") % words, now=now)
    elif what == "archive":
        archive = partial(tenant_archive, acting_user=who, tenant=place, expected=version)
        run_change(request, archive, _("%(name)s archived") % words, now=now)
    elif what == "restore":
        restore = partial(tenant_restore, acting_user=who, tenant=place, expected=version)
        run_change(request, restore, _("%(name)s restored") % words, now=now)
    else:
        return members.apply_form(request, who, place)
    return None


def _now(place: Tenant) -> str:
    """A tenant as somebody else has left it."""
    words = {"name": place.name, "parent": place.parent.name if place.parent else "–"}
    if place.is_archived:
        return _("Current name: %(name)s. Parent: %(parent)s. Archived.") % words
    return _("Current name: %(name)s. Parent: %(parent)s.") % words


def _new(request: HttpRequest, who: User, place: Tenant) -> Tenant | NewTenantForm:
    form = NewTenantForm(request.POST)
    if not form.is_valid():
        return form
    values = form.cleaned_data
    try:
        made = tenant_create(
            acting_user=who,
            parent=place,
            kind=TenantKind(values["kind"]),
            slug=values["slug"],
            name=values["name"],
        )
    except PermissionDenied:
        raise
    except AllotmentError as error:
        show_refusal(form, error)
        return form
    messages.success(request, _("%(name)s created") % {"name": made.name})
    return made
