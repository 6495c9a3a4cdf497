"""Members of a tenant: roles given here and above, and the permissions that follow for each person."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError, NotFound
from frontend.components.name_fields import PeopleInput
from frontend.shell.form_actions import run_change, show_refusal, version_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts.labels import role_word
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.access.rights import EffectiveRights, Right, effective_list
from tenants.models import Member, Tenant, User
from tenants.selectors.account import group_named, user_named
from tenants.selectors.member import member_get, member_list
from tenants.selectors.role import built_in_list, role_list, role_named
from tenants.selectors.tenant import workspace_get
from tenants.services.member import member_remove, member_set


@dataclass(frozen=True, slots=True)
class MemberLine:
    """One role that counts here. `own` is one that was given here and may be changed here."""

    member: Member
    kind: str
    role: str
    origin: str
    own: bool


@dataclass(frozen=True, slots=True)
class Person:
    """One person's access here: the roles in words, and the permissions."""

    username: str
    sources: Sequence[str]
    points: Sequence[str]


class AddMemberForm(forms.Form):
    """A user or group that gets a role."""

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
        # Pages show it beside forms with a name of their own, and an id is unique in a page.
        super().__init__(data, auto_id="id_member_%s")  # type: ignore[arg-type]
        field = self.fields["role"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101
        field.choices = roles


@login_required
def workspace_members(request: HttpRequest, workspace: str) -> HttpResponse:
    """The members of a workspace; POST adds, changes or removes one."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    form: AddMemberForm | None = None
    if request.method == "POST":
        form = apply_form(request, who, place)
        if form is None:
            return redirect("frontend:workspace-members", workspace=workspace)
    set_frame(request, place)
    page = card_of(who, place, reverse("frontend:workspace-members", args=[workspace]), form)
    status = 400 if form else 200
    return render(request, "frontend/tenancy/members.html", page | {"workspace": place}, status=status)


def role_choices(who: User, place: Tenant) -> list[tuple[str, str]]:
    """The roles that may be given on a tenant, with their words."""
    custom = [(role.name, role.name) for role in role_list(viewer=who, tenant=place)]
    return [(role.name, role_word(role.name)) for role in built_in_list(place)] + custom


def card_of(who: User, place: Tenant, url: str, form: AddMemberForm | None = None) -> dict[str, Any]:
    """Return the data of the card of members; its forms post to `url`. `form` is one that was refused."""
    roles = role_choices(who, place)
    return {
        "member_form": form or AddMemberForm(roles=roles),
        "members": [_line(member, place) for member in member_list(viewer=who, tenant=place, inherited=True)],
        "people": [_person(found) for found in effective_list(viewer=who, tenant=place)],
        "roles": roles,
        "may_edit": permissions.has_permission(who, Permission.MEMBER_EDIT, place) and not place.is_archived,
        "members_url": url,
    }


def _line(member: Member, place: Tenant) -> MemberLine:
    if member.group is not None:
        kind = _("Group")
    else:
        kind = _("Service account") if member.user and member.user.is_service else _("User")
    own = member.tenant_id == place.pk
    origin = _("Direct") if own else _("Inherited from %(tenant)s") % {"tenant": member.tenant}
    return MemberLine(member, kind, role_word(member.role_name), origin, own)


def _person(found: EffectiveRights) -> Person:
    return Person(found.user.username, [_source(right) for right in found.rights], sorted(found.points))


def _source(right: Right) -> str:
    if right.tenant is None and not right.group:
        return role_word(right.role)
    place = str(right.tenant) if right.tenant else _("Platform")
    names = {"role": role_word(right.role), "place": place, "group": right.group}
    return (_("%(role)s on %(place)s by %(group)s") if right.group else _("%(role)s on %(place)s")) % names


def id_of(text: str) -> uuid.UUID:
    """The id that a form names. Raises: NotFound for anything else."""
    try:
        return uuid.UUID(text)
    except ValueError as error:
        raise NotFound from error


def apply_form(request: HttpRequest, who: User, place: Tenant) -> AddMemberForm | None:
    """Add, change or remove a member as the form says; the form of a new member again where it is wrong."""
    asked, what = request.POST, request.POST.get("do")
    if what == "add":
        return _add(request, who, place)
    member = member_get(viewer=who, tenant=place, member_id=id_of(asked.get("member", "")))
    role, version = role_word(member.role_name), version_of(request)

    def describe_now() -> str:
        return _("Role of %(name)s is now %(role)s") % {"name": member.subject_name, "role": role}

    if what == "remove":
        word = _("%(name)s removed") % {"name": member.subject_name}
        remove = partial(member_remove, acting_user=who, member=member, expected=version)
        run_change(request, remove, word, now=describe_now)
    else:
        run_change(
            request,
            lambda: member_set(
                acting_user=who,
                tenant=place,
                role=role_named(viewer=who, tenant=place, name=asked.get("role", "")),
                user=member.user,
                group=member.group,
                expected=version,
            ),
            _("Role of %(name)s updated") % {"name": member.subject_name},
            now=describe_now,
        )
    return None


def _add(request: HttpRequest, who: User, place: Tenant) -> AddMemberForm | None:
    form = AddMemberForm(request.POST, roles=role_choices(who, place))
    if not form.is_valid():
        return form
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
        return form
    messages.success(request, _("%(name)s added") % {"name": name})
    return None
