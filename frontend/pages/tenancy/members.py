"""Members of a tenant: roles given here and above, and the resulting permissions of each user."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError, NotFound, PermissionDenied
from frontend.components.name_fields import PeopleInput
from frontend.components.view_models import Crumb
from frontend.lists.batch import answer_batch, is_batch
from frontend.lists.declaration import FilterField, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.lists.row_form import NEW, RowForm
from frontend.pages.tenancy.member_list import (
    EFFECTIVE,
    MEMBERS,
    batch_acts,
    find_members,
    member_lines,
    person,
)
from frontend.shell.form_actions import show_refusal, version_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts.labels import role_word
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.access.rights import effective_list
from tenants.models import Member, Tenant, User
from tenants.selectors.account import group_named, user_named
from tenants.selectors.member import member_get, member_list
from tenants.selectors.role import built_in_list, role_list, role_named
from tenants.selectors.tenant import tenant_get, workspace_get
from tenants.services.member import member_set


class AddMemberForm(forms.Form):
    """The form of a user or group that gets a role."""

    kind = forms.ChoiceField(
        label=gettext_lazy("Type"),
        required=False,
        initial="user",
        choices=[("user", gettext_lazy("User")), ("group", gettext_lazy("Group"))],
    )
    name = forms.CharField(
        label=gettext_lazy("User or group name"), max_length=150, widget=PeopleInput(kind_from="kind")
    )
    role = forms.ChoiceField(label=gettext_lazy("Role"), initial="viewer")
    use_required_attribute = False

    def __init__(self, data: object = None, *, roles: Sequence[tuple[str, str]]) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        field = self.fields["role"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101
        field.choices = roles


class RoleForm(forms.Form):
    """The form of another role of a member."""

    role = forms.ChoiceField(label=gettext_lazy("Role"))

    def __init__(self, data: object = None, *, roles: Sequence[tuple[str, str]], initial: Any = None) -> None:
        super().__init__(data, initial=initial)  # type: ignore[arg-type]
        field = self.fields["role"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101
        field.choices = roles


@login_required
def workspace_members(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the members of a workspace; POST adds one, or changes or removes some."""
    place = workspace_get(viewer=get_viewer(request), slug=workspace)
    set_frame(request, place)
    return _show_members(request, place, {"workspace": place})


@login_required
def tenant_members(request: HttpRequest, tenant: uuid.UUID) -> HttpResponse:
    """Show the members of any tenant, below its own page."""
    place = tenant_get(viewer=get_viewer(request), tenant_id=tenant)
    return _show_members(request, place, _frame_tenant(request, place))


@login_required
def workspace_permissions(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the permissions of each user in a workspace."""
    place = workspace_get(viewer=get_viewer(request), slug=workspace)
    set_frame(request, place)
    return _show_permissions(request, place, {"workspace": place})


@login_required
def tenant_permissions(request: HttpRequest, tenant: uuid.UUID) -> HttpResponse:
    """Show the permissions of each user in any tenant, below its own page."""
    place = tenant_get(viewer=get_viewer(request), tenant_id=tenant)
    return _show_permissions(request, place, _frame_tenant(request, place))


def _frame_tenant(request: HttpRequest, place: Tenant) -> dict[str, Any]:
    set_frame(request, label=_("All tenants"), trail=_("Operations"))
    own = reverse("frontend:ops-tenant", args=[place.pk])
    above = Crumb(label=_("Tenants"), url=reverse("frontend:ops-tenants"))
    return {"crumbs": [above, Crumb(label=place.name, url=own)]}


def _sections(frame: dict[str, Any], place: Tenant) -> list[tuple[str, str]]:
    """Return the addresses of the two lists, with their labels."""
    side, named = ("workspace", place.slug) if "workspace" in frame else ("ops-tenant", place.pk)
    return [
        (reverse(f"frontend:{side}-members", args=[named]), _("Roles")),
        (reverse(f"frontend:{side}-permissions", args=[named]), _("Effective permissions")),
    ]


def _show_members(request: HttpRequest, place: Tenant, frame: dict[str, Any]) -> HttpResponse:
    who = get_viewer(request)
    may_edit = permissions.has_permission(who, Permission.MEMBER_EDIT, place) and not place.is_archived
    roles = role_choices(who, place)
    acts = batch_acts(who, place, roles) if may_edit else []
    if is_batch(request):
        return answer_batch(request, acts=acts, find=partial(find_members, who, place), back=request.path)
    listing = read_list(request, _with_roles(MEMBERS, roles))
    refused: RowForm | None = None
    if request.method == "POST":
        refused = _save(request, who, place, roles)
        if refused is None:
            return redirect(listing.address)
    return answer_list(
        request,
        listing,
        listing.arrange_rows(member_list(viewer=who, tenant=place, inherited=True)),
        partial(member_lines, who, place, may_edit),
        template="frontend/tenancy/members.html",
        context=lambda: {
            **frame,
            "place": place,
            "sections": _sections(frame, place),
            "acts": acts,
            "edits": may_edit,
            "batch_url": request.path,
            "row": "frontend/tenancy/member_row.html",
            "empty_list": EmptyList(_("No members"), icon="users"),
            "open_form": refused or _open_form(who, place, roles, listing.form_of, may_edit),
        },
        status=400 if refused else 200,
    )


def _show_permissions(request: HttpRequest, place: Tenant, frame: dict[str, Any]) -> HttpResponse:
    who = get_viewer(request)
    listing = read_list(request, EFFECTIVE)
    return answer_list(
        request,
        listing,
        listing.arrange_rows(effective_list(viewer=who, tenant=place)),
        lambda found: [person(one) for one in found],
        template="frontend/tenancy/members.html",
        context=lambda: {
            **frame,
            "place": place,
            "sections": _sections(frame, place),
            "row": "frontend/tenancy/person_row.html",
            "empty_list": EmptyList(_("No members"), icon="users"),
        },
    )


def _with_roles(declared: ListDeclaration, roles: Sequence[tuple[str, str]]) -> ListDeclaration:
    """Return the declaration with the roles of the tenant as a filter."""
    field = FilterField(label=gettext_lazy("Role"), choices=roles)
    return replace(declared, filters={**declared.filters, "role": field})


def role_choices(who: User, place: Tenant) -> list[tuple[str, str]]:
    """Return the roles that may be given on a tenant, with their labels."""
    custom = [(role.name, role.name) for role in role_list(viewer=who, tenant=place)]
    return [(role.name, role_word(role.name)) for role in built_in_list(place)] + custom


def id_of(text: str) -> uuid.UUID:
    """Return the id in a form. Raises: NotFound for any other text."""
    try:
        return uuid.UUID(text)
    except ValueError as error:
        raise NotFound from error


def _open_form(
    who: User, place: Tenant, roles: Sequence[tuple[str, str]], asked: str, may_edit: bool
) -> RowForm | None:
    """Return the form that the address names. Raises: NotFound, PermissionDenied for a viewer who may not
    send it.
    """
    if not asked:
        return None
    if not may_edit:
        raise PermissionDenied
    if asked == NEW:
        return _add_form(AddMemberForm(roles=roles))
    member = member_get(viewer=who, tenant=place, member_id=id_of(asked))
    return _role_form(RoleForm(roles=roles, initial={"role": member.role_name}), member, member.version)


def _add_form(form: AddMemberForm) -> RowForm:
    fields = "frontend/tenancy/member_fields.html"
    word = _("Add member")
    return RowForm(title=word, do="add", button=word, form=form, fields=fields)


def _role_form(form: RoleForm, member: Member, version: int) -> RowForm:
    title = _("Role of %(name)s") % {"name": member.subject_name}
    return RowForm(title=title, do="change", button=_("Save"), form=form, row=str(member.pk), version=version)


def _save(request: HttpRequest, who: User, place: Tenant, roles: Sequence[tuple[str, str]]) -> RowForm | None:
    """Add a member or change a role; return the form if it is refused."""
    if request.POST.get("do") == "add":
        return _add(request, who, place, roles)
    member = member_get(viewer=who, tenant=place, member_id=id_of(request.POST.get("row", "")))
    form, version = RoleForm(request.POST, roles=roles), version_of(request)
    words = {"name": member.subject_name, "role": role_word(member.role_name)}
    if not form.is_valid():
        return _role_form(form, member, version)
    try:
        member_set(
            acting_user=who,
            tenant=place,
            role=role_named(viewer=who, tenant=place, name=form.cleaned_data["role"]),
            user=member.user,
            group=member.group,
            expected=version,
        )
    except AllotmentError as error:
        show_refusal(form, error, now=lambda: _("Role of %(name)s is now %(role)s") % words)
        return _role_form(form, member, version)
    messages.success(request, _("Role of %(name)s updated") % words)
    return None


def _add(request: HttpRequest, who: User, place: Tenant, roles: Sequence[tuple[str, str]]) -> RowForm | None:
    form = AddMemberForm(request.POST, roles=roles)
    if not form.is_valid():
        return _add_form(form)
    values = form.cleaned_data
    name = values["name"].strip()
    by_group = values["kind"] == "group"
    try:
        member_set(
            acting_user=who,
            tenant=place,
            role=role_named(viewer=who, tenant=place, name=values["role"]),
            user=None if by_group else user_named(name, "name"),
            group=group_named(name, "name") if by_group else None,
        )
    except AllotmentError as error:
        show_refusal(form, error)
        return _add_form(form)
    messages.success(request, _("%(name)s added") % {"name": name})
    return None
