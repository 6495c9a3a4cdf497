"""Custom roles: sets of permissions for a tenant and all below it, or for the platform."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError
from foundation.web.listing import Column, ColumnKind
from frontend.lists.batch import BatchAct, BatchItem, answer_batch, is_batch
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.lists.row_form import NEW, RowForm
from frontend.pages.tenancy.members import id_of
from frontend.pages.tenancy.tenant_tree import crumbs_to
from frontend.shell.form_actions import show_refusal, version_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts.labels import role_word
from tenants.access import permissions
from tenants.access.permission_points import PLATFORM_POINTS
from tenants.access.permissions import Permission
from tenants.models import CustomRole, Tenant, User
from tenants.selectors.role import built_in_list, role_get, role_list
from tenants.selectors.tenant import tenant_get
from tenants.services.role import role_create, role_delete, role_update

POINTS: Final[dict[Permission, str | Promise]] = {
    Permission.TENANT_VIEW: gettext_lazy("View the tenant"),
    Permission.TENANT_EDIT: gettext_lazy("Rename, move and archive tenants"),
    Permission.MEMBER_EDIT: gettext_lazy("Manage members, roles and service accounts"),
    Permission.QUOTA_VIEW: gettext_lazy("View quotas and queues"),
    Permission.QUOTA_EDIT: gettext_lazy("Assign quota"),
    Permission.QUEUE_EDIT: gettext_lazy("Create and configure queues"),
    Permission.POLICY_EDIT: gettext_lazy("Manage policies"),
    Permission.JOB_VIEW: gettext_lazy("View jobs"),
    Permission.JOB_SUBMIT: gettext_lazy("Submit jobs"),
    Permission.JOB_STOP_OWN: gettext_lazy("Cancel own jobs"),
    Permission.JOB_STOP_ANY: gettext_lazy("Cancel any job"),
    Permission.CLUSTER_VIEW: gettext_lazy("View clusters and nodes"),
    Permission.CLUSTER_EDIT: gettext_lazy("Manage clusters and nodes"),
    Permission.AUDIT_VIEW: gettext_lazy("View audit logs"),
}


@dataclass(frozen=True, slots=True)
class RoleLine:
    """A role in the list, with its permissions; `fixed` unless it was created here."""

    id: str
    title: str
    description: str
    points: Sequence[str]
    origin: str
    fixed: bool

    @property
    def number(self) -> int:
        return len(self.points)


ROLES: Final = ListDeclaration(
    key="roles",
    title=gettext_lazy("Roles"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Name"), sort="name", text=lambda line: line.title),
        ListColumn(key="origin", label=gettext_lazy("Source"), sort="origin", text=lambda line: line.origin),
        ListColumn(key="description", label=gettext_lazy("Description"), text=lambda line: line.description),
        ListColumn(
            key="points",
            label=gettext_lazy("Permissions"),
            sort="permissions",
            text=lambda line: _(", ").join(line.points),
        ),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Name")),
        "description": FilterField(label=gettext_lazy("Description")),
        "permissions": FilterField(label=gettext_lazy("Number of permissions")),
    },
    fields={
        "name": Column("title"),
        "origin": Column("origin"),
        "description": Column("description"),
        "permissions": Column("number", ColumnKind.NUMBER),
    },
    size=50,
    every_s=0,
)


class TenantRoleForm(forms.Form):
    """The form of a role: name, description, and a checkbox for each permission."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=60)
    description = forms.CharField(label=gettext_lazy("Description"), max_length=200, required=False)
    points = forms.MultipleChoiceField(
        label=gettext_lazy("Permissions"), widget=forms.CheckboxSelectMultiple, required=False
    )

    def __init__(self, *args: Any, offered: Sequence[Permission], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["points"]
        if isinstance(field, forms.MultipleChoiceField):
            field.choices = [(point.value, POINTS.get(point, point.value)) for point in offered]


@login_required
def show_roles(request: HttpRequest, tenant: uuid.UUID | None = None) -> HttpResponse:
    """Show the roles of a tenant or of the platform; POST creates, changes or deletes some."""
    who = get_viewer(request)
    place = tenant_get(viewer=who, tenant_id=tenant) if tenant else None
    permissions.require_permission(who, Permission.MEMBER_EDIT, place)
    set_frame(request, label=_("Roles"), trail=place.name if place else _("Platform"))
    acts = [_delete_act(who)]
    if is_batch(request):
        return answer_batch(request, acts=acts, find=partial(_find, who, place), back=_address(place))
    listing = read_list(request, ROLES)
    refused: RowForm | None = None
    if request.method == "POST":
        refused = _save(request, who, place)
        if refused is None:
            return redirect(listing.address)
    return answer_list(
        request,
        listing,
        listing.arrange_rows(_lines(who, place)),
        list,
        template="frontend/tenancy/roles.html",
        context=lambda: {
            "place": place,
            "acts": acts,
            "edits": True,
            "batch_url": _address(place),
            "row": "frontend/tenancy/role_row.html",
            "empty_list": EmptyList(_("No roles"), icon="shield"),
            "open_form": refused or _open_form(who, place, listing.form_of),
            "crumbs": crumbs_to(place),
        },
        status=400 if refused else 200,
    )


def _open_form(who: User, place: Tenant | None, asked: str) -> RowForm | None:
    if not asked:
        return None
    if asked == NEW:
        return _form(TenantRoleForm(offered=_offered(place)), None)
    role = role_get(viewer=who, tenant=place, role_id=id_of(asked))
    initial = {"name": role.name, "description": role.description, "points": role.points}
    return _form(TenantRoleForm(initial=initial, offered=_offered(place)), role, role.version)


def _offered(place: Tenant | None) -> list[Permission]:
    return [point for point in Permission if place is None or point not in PLATFORM_POINTS]


def _form(form: TenantRoleForm, role: CustomRole | None, version: int | None = None) -> RowForm:
    return RowForm(
        title=_("Edit %(name)s") % {"name": role.name} if role else _("Create role"),
        do="save",
        button=_("Save role"),
        form=form,
        fields="frontend/tenancy/role_fields.html",
        row=str(role.pk) if role else "",
        version=version,
        note=_("You can only grant permissions that you have"),
    )


def _save(request: HttpRequest, who: User, place: Tenant | None) -> RowForm | None:
    """Create or change a role; return the form if it is refused."""
    row, version = request.POST.get("row"), version_of(request)
    role = role_get(viewer=who, tenant=place, role_id=id_of(row)) if row else None
    form = TenantRoleForm(request.POST, offered=_offered(place))
    if not form.is_valid():
        return _form(form, role, version if role else None)
    values = {**form.cleaned_data, "points": [Permission(word) for word in form.cleaned_data["points"]]}
    try:
        if role is None:
            role_create(acting_user=who, tenant=place, **values)
        else:
            role_update(acting_user=who, role=role, expected=version, **values)
    except AllotmentError as error:
        show_refusal(form, error, now=partial(_now, role) if role else None)
        return _form(form, role, version if role else None)
    messages.success(request, _("Role %(name)s saved") % {"name": values["name"]})
    return None


def _delete_act(who: User) -> BatchAct:
    return BatchAct(
        key="remove",
        label=_("Delete role"),
        title=_("Delete roles"),
        act=lambda role, _choice: role_delete(acting_user=who, role=role, expected=role.version),
        danger=True,
        note=_("Remove all assignments before you delete the role."),
        icon="trash-2",
    )


def _find(who: User, place: Tenant | None, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    found = [role_get(viewer=who, tenant=place, role_id=pk) for pk in ids]
    return [
        BatchItem(id=role.pk, name=role.name, row=role, state=role.description, version=role.version)
        for role in found
    ]


def _now(role: CustomRole) -> str:
    """Return the present state of a role, for the message about a concurrent change."""
    points = _(", ").join(str(POINTS.get(Permission(word), word)) for word in role.points)
    return _("Current name: %(name)s. Permissions: %(points)s.") % {"name": role.name, "points": points}


def _lines(who: User, place: Tenant | None) -> list[RoleLine]:
    lines = [
        RoleLine(one.name, role_word(one.name), "", sorted(one.points), _("Built-in"), fixed=True)
        for one in built_in_list(place)
    ]
    for role in role_list(viewer=who, tenant=place):
        own = role.tenant_id == (place.pk if place else None)
        origin = _("Custom") if own else _("Inherited from %(tenant)s") % {"tenant": role.tenant}
        lines.append(RoleLine(str(role.pk), role.name, role.description, role.points, origin, not own))
    return lines


def _address(place: Tenant | None) -> str:
    return reverse("frontend:ops-tenant-roles", args=[place.pk]) if place else reverse("frontend:ops-roles")
