"""Priority classes: create, change, disable, enable."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError, NotFound, PermissionDenied
from foundation.web.listing import Column
from frontend.lists.batch import BatchAct, BatchItem, answer_batch, is_batch
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.lists.row_form import NEW, RowForm
from frontend.pages.tenancy.members import id_of
from frontend.shell.form_actions import show_refusal, version_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from scheduling.models import PriorityClass
from scheduling.selectors.policies.priority_grant import CLASS_COLUMNS, priority_class_all
from scheduling.services.policies.priority_class import (
    DEFAULT,
    VALUE_MAX,
    priority_class_create,
    priority_class_update,
)
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User


@dataclass(frozen=True, slots=True)
class ClassLine:
    """A class. `grants` counts the tenants that may use it; None if no grant is needed."""

    found: Any  # a PriorityClass with the number of its grants

    @property
    def id(self) -> uuid.UUID:
        found: uuid.UUID = self.found.pk
        return found

    @property
    def title(self) -> str:
        return str(self.found.name)

    @property
    def grants(self) -> int | None:
        return int(self.found.grant_count) if self.found.value > 0 else None

    @property
    def is_enabled(self) -> bool:
        return self.found.retired_at is None


CLASSES: Final = ListDeclaration(
    key="priorities",
    title=gettext_lazy("Priority classes"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Name"), sort="name", text=lambda line: line.title),
        ListColumn(
            key="value",
            label=gettext_lazy("Value"),
            number=True,
            sort="value",
            text=lambda line: line.found.value,
        ),
        ListColumn(
            key="state",
            label=gettext_lazy("State"),
            text=lambda line: _("Enabled") if line.is_enabled else _("Disabled"),
        ),
        ListColumn(
            key="description",
            label=gettext_lazy("Description"),
            text=lambda line: line.found.description,
        ),
        ListColumn(
            key="granted",
            label=gettext_lazy("Granted to"),
            number=True,
            text=lambda line: _("All users") if line.grants is None else line.grants,
        ),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Name")),
        "value": FilterField(label=gettext_lazy("Value")),
        "description": FilterField(label=gettext_lazy("Description")),
    },
    fields={**CLASS_COLUMNS, "description": Column("description")},
    every_s=0,
)


class ClassChangeForm(forms.Form):
    """The form of a changed class, which keeps its name."""

    value = forms.IntegerField(
        label=gettext_lazy("Value"),
        min_value=-VALUE_MAX,
        max_value=VALUE_MAX,
        help_text=gettext_lazy("Values above 0 require a grant."),
    )
    description = forms.CharField(label=gettext_lazy("Description"), max_length=200, required=False)


class ClassForm(ClassChangeForm):
    """The form of a new class."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=63)
    field_order = ("name", "value", "description")


def priority_sections() -> list[tuple[str, str]]:
    """Return the addresses of both lists with their labels."""
    return [
        (reverse("frontend:ops-priorities"), _("Priority classes")),
        (reverse("frontend:ops-priority-grants"), _("Priority grants")),
    ]


@login_required
def show_priorities(request: HttpRequest) -> HttpResponse:
    """Show classes; POST creates or changes one, or disables or enables some."""
    who = get_viewer(request)
    edits = permissions.has_permission(who, Permission.QUEUE_EDIT)
    acts = _acts(who) if edits else []
    set_frame(request, label=_("Priorities"), trail=_("Operations"))
    if is_batch(request):
        return answer_batch(request, acts=acts, find=_find, back=request.path)
    listing = read_list(request, CLASSES)
    refused: RowForm | None = None
    if request.method == "POST":
        refused = _save(request, who)
        if refused is None:
            return redirect(listing.address)
    if listing.form_of and not edits:
        raise PermissionDenied
    return answer_list(
        request,
        listing,
        listing.arrange_rows(_classes()),
        lambda found: [ClassLine(one) for one in found],
        template="frontend/policies/priorities.html",
        context=lambda: {
            "sections": priority_sections(),
            "note": _("Higher values are scheduled first"),
            "row": "frontend/policies/class_row.html",
            "acts": acts,
            "edits": edits,
            "batch_url": request.path,
            "add_label": _("Create priority class") if edits else "",
            "open_form": refused or _open_form(listing.form_of),
            "empty_list": EmptyList(_("No priority classes"), icon="arrow-up-narrow-wide"),
        },
        status=400 if refused else 200,
    )


def _classes() -> QuerySet[Any]:
    return priority_class_all().annotate(grant_count=Count("grants"))


def _class(text: str) -> PriorityClass:
    found = priority_class_all().filter(pk=id_of(text)).first()
    if found is None:
        raise NotFound
    return found


def _open_form(asked: str) -> RowForm | None:
    if not asked:
        return None
    if asked == NEW:
        return _form(ClassForm(), None)
    found = _class(asked)
    initial = {"value": found.value, "description": found.description}
    return _form(ClassChangeForm(initial=initial), found, found.version)


def _form(form: ClassChangeForm, found: PriorityClass | None, version: int | None = None) -> RowForm:
    return RowForm(
        title=_("Edit %(name)s") % {"name": found.name} if found else _("Create priority class"),
        do="change" if found else "make",
        button=_("Save") if found else _("Create priority class"),
        form=form,
        row=str(found.pk) if found else "",
        version=version,
        note=_("Existing jobs aren't affected.") if found else "",
    )


def _save(request: HttpRequest, who: User) -> RowForm | None:
    """Create or change a class; return the form if it is refused."""
    row, version = request.POST.get("row"), version_of(request)
    found = _class(row) if row else None
    form = ClassChangeForm(request.POST) if found else ClassForm(request.POST)
    if not form.is_valid():
        return _form(form, found, version if found else None)
    try:
        if found:
            change = partial(priority_class_update, priority_class=found, expected=version)
            change(acting_user=who, **form.cleaned_data)
        else:
            priority_class_create(acting_user=who, **form.cleaned_data)
    except AllotmentError as error:
        show_refusal(form, error)
        return _form(form, found, version if found else None)
    name = found.name if found else form.cleaned_data["name"]
    word = (
        _("%(name)s updated. Existing jobs aren't affected.")
        if found
        else _("Priority class %(name)s created")
    )
    messages.success(request, word % {"name": name})
    return None


def _acts(who: User) -> list[BatchAct]:
    def set_retired(found: PriorityClass, retired: bool) -> None:
        priority_class_update(acting_user=who, priority_class=found, retired=retired, expected=found.version)

    return [
        BatchAct(
            key="restore",
            label=_("Enable"),
            title=_("Enable priority classes"),
            act=lambda found, _choice: set_retired(found, False),
            icon="play",
            fits=lambda line: not line.is_enabled,
        ),
        BatchAct(
            key="retire",
            label=_("Disable"),
            title=_("Disable priority classes"),
            act=lambda found, _choice: set_retired(found, True),
            danger=True,
            note=_("New jobs can't use it. Existing jobs and grants are kept. You can enable it again."),
            icon="pause",
            fits=lambda line: line.is_enabled and line.title != DEFAULT,
        ),
    ]


def _find(ids: Collection[uuid.UUID]) -> list[BatchItem]:
    return [
        BatchItem(id=one.pk, name=one.name, row=one, version=one.version)
        for one in priority_class_all().filter(pk__in=ids)
    ]
