"""Groups of users: local ones, and those of the identity provider."""

from __future__ import annotations

import uuid
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

from foundation.core.errors import AllotmentError
from foundation.web.listing import Column, ColumnKind, filter_rows, sort_rows
from frontend.components import view_models
from frontend.components.name_fields import PeopleInput
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.pages.tenancy.members import id_of
from frontend.shell.form_actions import run_change, show_refusal, version_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from tenants.models import Group, User
from tenants.selectors.account import GROUP_COLUMNS, group_get, group_list, group_people, user_get, user_named
from tenants.services.group import group_add, group_create, group_delete, group_remove, group_update


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One row of the list."""

    group: Any  # a Group with its `size`

    @property
    def id(self) -> uuid.UUID:
        found: uuid.UUID = self.group.pk
        return found

    @property
    def title(self) -> str:
        return str(self.group.name)

    @property
    def url(self) -> str:
        return reverse("frontend:ops-group", args=[self.group.pk])

    @property
    def source(self) -> str:
        if self.group.claim:
            return _("Identity provider (%(claim)s)") % {"claim": self.group.claim}
        return _("Local")


GROUP_SORTS: Final = {"name": Column("name"), "size": Column("size", ColumnKind.NUMBER)}
GROUPS: Final = ListDeclaration(
    key="groups",
    title=gettext_lazy("Groups"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Name"), sort="name", text=lambda line: line.group.name),
        ListColumn(key="source", label=gettext_lazy("Membership source"), text=lambda line: line.source),
        ListColumn(
            key="size",
            label=gettext_lazy("Members"),
            number=True,
            sort="size",
            text=lambda line: line.group.size,
        ),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Name")),
        "claim": FilterField(label=gettext_lazy("Identity provider group")),
    },
    fields=GROUP_COLUMNS,
    default_sort="name",
    every_s=30,
)


class GroupForm(forms.Form):
    """The form of a group."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=120)
    claim = forms.CharField(
        label=gettext_lazy("Identity provider group"),
        max_length=200,
        required=False,
        help_text=gettext_lazy("Membership is synced at each sign-in."),
    )


class AddPersonForm(forms.Form):
    """The form of a new member of a group."""

    name = forms.CharField(label=gettext_lazy("Username"), max_length=150, widget=PeopleInput())

    def __init__(self, data: object = None) -> None:
        super().__init__(data, auto_id="id_person_%s")  # type: ignore[arg-type]


@login_required
def show_groups(request: HttpRequest) -> HttpResponse:
    """Show all groups; POST creates one."""
    who = get_viewer(request)
    groups = group_list(viewer=who)
    form = GroupForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            made = group_create(acting_user=who, **form.cleaned_data)
        except AllotmentError as error:
            show_refusal(form, error)
        else:
            messages.success(request, _("Group %(name)s created") % {"name": made.name})
            return redirect("frontend:ops-group", group=made.pk)
    set_frame(request, label=_("Groups"), trail=_("Operations"))
    listing = read_list(request, GROUPS)
    hint = _("Create a group, then add it as a member of a tenant.")
    return answer_list(
        request,
        listing,
        sort_rows(filter_rows(groups, listing.conditions), listing.sort, GROUP_SORTS),
        lambda found: [GroupLine(group) for group in found],
        template="frontend/tenancy/groups.html",
        context=lambda: {
            "form": form,
            "row": "frontend/tenancy/group_row.html",
            "empty_list": EmptyList(_("No groups"), hint, icon="users"),
        },
        status=400 if form.errors else 200,
    )


@login_required
def show_group(request: HttpRequest, group: uuid.UUID) -> HttpResponse:
    """Show one group with its members; POST changes either, or deletes the group."""
    who = get_viewer(request)
    found = group_get(viewer=who, group_id=group)
    form = GroupForm(initial={"name": found.name, "claim": found.claim or ""})
    adding = AddPersonForm()
    if request.method == "POST":
        what = request.POST.get("do")
        if what == "rename":
            form = GroupForm(request.POST)
            if form.is_valid() and _renamed(request, who, found, form):
                return redirect("frontend:ops-group", group=found.pk)
        elif what == "delete":
            word = _("Group %(name)s deleted") % {"name": found.name}
            remove = partial(group_delete, acting_user=who, group=found, expected=version_of(request))
            deleted = run_change(request, remove, word, now=partial(_now, found))
            return redirect("frontend:ops-groups") if deleted else redirect("frontend:ops-group", group=group)
        elif what == "add":
            adding = AddPersonForm(request.POST)
            if adding.is_valid() and _added(request, who, found, adding):
                return redirect("frontend:ops-group", group=found.pk)
        else:
            _remove(request, who, found)
            return redirect("frontend:ops-group", group=found.pk)
    set_frame(request, label=_("Groups"), trail=found.name)
    page = {
        "group": found,
        "people": group_people(viewer=who, group=found),
        "form": form,
        "adding": adding,
        "crumbs": [view_models.Crumb(label=_("Groups"), url=reverse("frontend:ops-groups"))],
    }
    status = 400 if form.errors or adding.errors else 200
    return render(request, "frontend/tenancy/group.html", page, status=status)


def _renamed(request: HttpRequest, who: User, found: Group, form: GroupForm) -> bool:
    try:
        group_update(acting_user=who, group=found, expected=version_of(request), **form.cleaned_data)
    except AllotmentError as error:
        show_refusal(form, error, now=partial(_now, found))
        return False
    messages.success(request, _("Group updated"))
    return True


def _now(found: Group) -> str:
    """Return the present state of a group, for the message about a concurrent change."""
    if found.claim:
        words = {"name": found.name, "claim": found.claim}
        return _("Current name: %(name)s. Identity provider group: %(claim)s.") % words
    return _("Current name: %(name)s. Membership source: local.") % {"name": found.name}


def _added(request: HttpRequest, who: User, found: Group, form: AddPersonForm) -> bool:
    name = form.cleaned_data["name"].strip()
    try:
        group_add(acting_user=who, group=found, user=user_named(name, "name"))
    except AllotmentError as error:
        show_refusal(form, error)
        return False
    messages.success(request, _("%(name)s added to %(group)s") % {"name": name, "group": found.name})
    return True


def _remove(request: HttpRequest, who: User, found: Group) -> None:
    person = user_get(viewer=who, user_id=id_of(request.POST.get("user", "")))
    word = _("%(name)s removed from %(group)s")
    words = {"name": person.username, "group": found.name}
    run_change(request, lambda: group_remove(acting_user=who, group=found, user=person), word % words)
