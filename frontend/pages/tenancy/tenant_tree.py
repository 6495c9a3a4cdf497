"""The page of a tenant: its name, its place in the tree, its children, and its archiving."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError, NotFound, PermissionDenied
from frontend.components import view_models
from frontend.lists.page_list import EmptyList, PageList, read_list
from frontend.lists.row_form import NEW, RowForm
from frontend.pages.jobs.addresses import all_jobs_address, jobs_address
from frontend.pages.tenancy.members import id_of
from frontend.pages.tenancy.tenant_list import TENANTS, answer_tenants, batch_acts, tenant_address
from frontend.shell.form_actions import run_change, show_refusal, version_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts import formats
from quotas.selectors.tenants.team import team_parents
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.hooks.tree_effects import Effect
from tenants.models import Tenant, TenantKind, User
from tenants.selectors.tenant import tenant_archive_preview, tenant_get, tenants_above
from tenants.selectors.tenant_move import MovePreview, tenant_move_preview
from tenants.selectors.tenant_tree import tenant_query
from tenants.services.tenant import tenant_archive, tenant_create, tenant_rename, tenant_restore
from tenants.services.tenant_move import tenant_move

_QUOTA: Final = "QUOTA_MOVES"


class NewTenantForm(forms.Form):
    """The form of a new folder or workspace."""

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
def show_tenant(request: HttpRequest, tenant: uuid.UUID) -> HttpResponse:
    """Show one tenant; POST creates below it, renames, moves, archives or restores it."""
    who = get_viewer(request)
    place = tenant_get(viewer=who, tenant_id=tenant)
    refused: RowForm | None = None
    if request.method == "POST":
        answer = _act(request, who, place)
        if answer is None:
            return redirect(tenant_address(place))
        if isinstance(answer, Tenant):
            return redirect(tenant_address(answer))
        refused = _new_form(answer)
    set_frame(request, label=_("All tenants"), trail=_("Operations"))
    listing = read_list(request, TENANTS)
    return answer_tenants(
        request,
        listing,
        tenant_query(viewer=who).filter(parent=place),
        acts=[] if place.is_workspace else batch_acts(who),
        template="frontend/tenancy/tenant.html",
        context=partial(_context, request, who, place, listing, refused),
        status=400 if refused else 200,
    )


def _context(
    request: HttpRequest, who: User, place: Tenant, listing: PageList, refused: RowForm | None
) -> dict[str, Any]:
    above = place.parent
    decides = above is not None and permissions.has_permission(who, Permission.TENANT_EDIT, above)
    edits = permissions.has_permission(who, Permission.TENANT_EDIT, place)
    may_add = edits and not place.is_workspace and not place.is_archived
    return {
        "place": place,
        "crumbs": _crumbs(who, place),
        "open_form": refused or _open_form(listing, may_add),
        "may_add": may_add,
        "may_add_team": any(folder.pk == place.pk for folder in team_parents(who)),
        "may_rename": edits and not place.is_archived,
        "may_move": decides and not place.is_archived,
        "may_archive": decides,
        "may_edit": permissions.has_permission(who, Permission.MEMBER_EDIT, place) and not place.is_archived,
        "jobs_url": _jobs_url(who, place),
        "may_see_quota": permissions.has_permission(who, Permission.QUOTA_VIEW, place),
        "targets": _targets(who, place) if decides else [],
        "effects": tenant_archive_preview(viewer=who, tenant=place) if decides else [],
        "asked": request.GET.get("to", ""),
        "empty_list": EmptyList(_("No child tenants"), icon="boxes"),
        **_previewed(_preview(request, who, place)),
    }


def _jobs_url(who: User, place: Tenant) -> str:
    """Return the list of the jobs of a workspace or of all below a folder; empty if the viewer may not see
    jobs.
    """
    if not permissions.has_permission(who, Permission.JOB_VIEW, place):
        return ""
    own = jobs_address(place.slug) if place.is_workspace else ""
    return all_jobs_address(who, tenant=place.slug) or own


def _open_form(listing: PageList, may_add: bool) -> RowForm | None:
    if listing.form_of != NEW:
        return None
    if not may_add:
        raise PermissionDenied
    return _new_form(NewTenantForm())


def _new_form(form: NewTenantForm) -> RowForm:
    fields, word = "frontend/tenancy/tenant_fields.html", _("Create child tenant")
    return RowForm(title=word, do="new", button=_("Create"), form=form, fields=fields)


def _crumbs(who: User, place: Tenant) -> list[view_models.Crumb]:
    """Return the tenants above that the viewer may see."""
    above = tenants_above(viewer=who, tenant=place)
    crumbs = [view_models.Crumb(label=one.name, url=tenant_address(one)) for one in above]
    return [view_models.Crumb(label=_("Tenants"), url=reverse("frontend:ops-tenants")), *crumbs]


def crumbs_to(place: Tenant | None) -> list[view_models.Crumb]:
    """Return the links to a page below that of a tenant, or of the whole platform."""
    tenants = view_models.Crumb(label=_("Tenants"), url=reverse("frontend:ops-tenants"))
    return [tenants, view_models.Crumb(label=place.name, url=tenant_address(place))] if place else [tenants]


def _targets(who: User, place: Tenant) -> list[Tenant]:
    """Return the folders in sight below which the tenant could be moved."""
    folders = tenant_query(viewer=who).filter(kind=TenantKind.FOLDER)
    editable = permissions.tenants_with(who, Permission.TENANT_EDIT).values("pk")
    rows = folders.filter(pk__in=editable).exclude(path__startswith=place.path).order_by("path")
    return [folder for folder in rows if folder.pk != place.parent_id]


def _preview(request: HttpRequest, who: User, place: Tenant) -> MovePreview | None:
    """Preview the move that the address describes; a refusal is shown instead."""
    wanted = request.GET.get("to")
    if not wanted:
        return None
    try:
        parent = tenant_get(viewer=who, tenant_id=id_of(wanted))
        return tenant_move_preview(viewer=who, tenant=place, parent=parent)
    except (NotFound, PermissionDenied):
        raise
    except AllotmentError as error:
        messages.error(request, error.detail)
        return None


def _previewed(preview: MovePreview | None) -> dict[str, Any]:
    """Return the preview with its quota as table rows, and its other effects as sentences."""
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


def _act(request: HttpRequest, who: User, place: Tenant) -> Tenant | NewTenantForm | None:
    """Run the action of the form; return the form if it is invalid, or the created tenant."""
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
        parent = tenant_get(viewer=who, tenant_id=id_of(asked.get("to", "")))
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
        raise NotFound
    return None


def _now(place: Tenant) -> str:
    """Return the present state of a tenant, for the message about a concurrent change."""
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
