"""Custom roles: sets of permissions, ticked together, for a tenant and below it or for the platform."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError
from frontend.pages.tenancy.members import id_of
from frontend.pages.tenancy.tenant_tree import crumbs_to
from frontend.shell.form_actions import run_change, show_refusal, version_of
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
    """A role in the list: what it may do, and whether it can be changed here."""

    name: str
    description: str
    points: Sequence[str]
    role: CustomRole | None
    url: str
    origin: str


class TenantRoleForm(forms.Form):
    """A role: name, description, and a tick for each permission."""

    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
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
    """The roles that may be given at a tenant, or on the platform; POST makes, changes or removes one.

    `?role=` opens one of those that were made here.
    """
    who = get_viewer(request)
    place = tenant_get(viewer=who, tenant_id=tenant) if tenant else None
    permissions.require_permission(who, Permission.MEMBER_EDIT, place)
    wanted = request.POST.get("role") or request.GET.get("role")
    opened = role_get(viewer=who, tenant=place, role_id=id_of(wanted)) if wanted else None
    if request.method == "POST" and request.POST.get("do") == "remove" and opened is not None:
        word = _("Role %(name)s deleted") % {"name": opened.name}
        remove = partial(role_delete, acting_user=who, role=opened, expected=version_of(request))
        run_change(request, remove, word, now=partial(_now, opened))
        return redirect(_address(place))
    offered = [point for point in Permission if place is None or point not in PLATFORM_POINTS]
    form = TenantRoleForm(
        request.POST if request.method == "POST" else None, initial=_initial(opened), offered=offered
    )
    if request.method == "POST" and form.is_valid() and _saved(request, who, place, opened, form):
        return redirect(_address(place))
    set_frame(request, label=_("Roles"), trail=place.name if place else _("Platform"))
    page = {
        "place": place,
        "lines": _lines(who, place),
        "opened": opened,
        "form": form,
        "url": _address(place),
        "crumbs": crumbs_to(place),
    }
    return render(request, "frontend/tenancy/roles.html", page, status=400 if form.errors else 200)


def _initial(role: CustomRole | None) -> dict[str, Any]:
    if role is None:
        return {}
    return {
        "version": role.version, "name": role.name, "description": role.description, "points": role.points,
    }  # fmt: skip


def _saved(
    request: HttpRequest, who: User, place: Tenant | None, opened: CustomRole | None, form: TenantRoleForm
) -> bool:
    values = form.cleaned_data
    points = [Permission(word) for word in values["points"]]
    try:
        if opened is None:
            role_create(
                acting_user=who,
                tenant=place,
                name=values["name"],
                points=points,
                description=values["description"],
            )
        else:
            role_update(
                acting_user=who,
                role=opened,
                name=values["name"],
                points=points,
                description=values["description"],
                expected=version_of(request),
            )
    except AllotmentError as error:
        show_refusal(form, error, now=partial(_now, opened) if opened else None)
        return False
    messages.success(request, _("Role %(name)s saved") % {"name": values["name"]})
    return True


def _now(role: CustomRole) -> str:
    """A role as somebody else has left it."""
    points = ", ".join(str(POINTS.get(Permission(word), word)) for word in role.points)
    return _("Current name: %(name)s. Permissions: %(points)s.") % {"name": role.name, "points": points}


def _lines(who: User, place: Tenant | None) -> list[RoleLine]:
    lines = [
        RoleLine(role_word(one.name), _("Built-in"), sorted(one.points), None, "", "")
        for one in built_in_list(place)
    ]
    for role in role_list(viewer=who, tenant=place):
        own = role.tenant_id == (place.pk if place else None)
        origin = _("Custom") if own else _("Inherited from %(tenant)s") % {"tenant": role.tenant}
        url = f"{_address(place)}?role={role.pk}" if own else ""
        lines.append(RoleLine(role.name, role.description, role.points, role, url, origin))
    return lines


def _address(place: Tenant | None) -> str:
    return reverse("frontend:ops-tenant-roles", args=[place.pk]) if place else reverse("frontend:ops-roles")
