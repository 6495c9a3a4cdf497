"""Grants of the raised priority classes to tenants."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError, PermissionDenied
from foundation.web.listing import Column, ColumnKind
from frontend.components.long_select import LongSelect
from frontend.lists.batch import BatchAct, BatchItem, answer_batch, is_batch
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.lists.row_form import NEW, RowForm
from frontend.pages.policies.priorities import priority_sections
from frontend.pages.tenancy.members import id_of
from frontend.shell.form_actions import show_refusal
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from scheduling.models import PriorityClass, PriorityGrant
from scheduling.selectors.policies.priority_grant import (
    GRANT_COLUMNS,
    priority_class_all,
    priority_class_get,
    priority_grant_get,
    priority_grant_list,
)
from scheduling.services.policies.priority_grant import priority_grant, priority_revoke
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, TenantKind, User
from tenants.selectors.tenant import TenantChoice, tenant_choices, tenant_get


@dataclass(frozen=True, slots=True)
class GrantLine:
    """A grant; `fixed` for a viewer who may not revoke it."""

    grant: PriorityGrant
    fixed: bool

    @property
    def id(self) -> uuid.UUID:
        return self.grant.pk

    @property
    def title(self) -> str:
        return f"{self.grant.tenant.name}{_(': ')}{self.grant.priority_class.name}"

    @property
    def tenant_url(self) -> str:
        return reverse("frontend:ops-tenant", args=[self.grant.tenant_id])


GRANTS: Final = ListDeclaration(
    key="grants",
    title=gettext_lazy("Priority grants"),
    columns=(
        ListColumn(
            key="tenant", label=gettext_lazy("Tenant"), sort="name", text=lambda line: line.grant.tenant.name
        ),
        ListColumn(
            key="class",
            label=gettext_lazy("Class"),
            sort="priority_class",
            text=lambda line: line.grant.priority_class.name,
        ),
        ListColumn(
            key="value",
            label=gettext_lazy("Value"),
            number=True,
            sort="value",
            text=lambda line: line.grant.priority_class.value,
        ),
        ListColumn(
            key="since",
            label=gettext_lazy("Since"),
            number=True,
            sort="created_at",
            text=lambda line: line.grant.created_at,
        ),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Tenant")),
        "priority_class": FilterField(label=gettext_lazy("Class")),
        "value": FilterField(label=gettext_lazy("Value")),
        "created_at": FilterField(label=gettext_lazy("Since")),
    },
    fields={
        **GRANT_COLUMNS,
        "name": Column("tenant.name"),
        "value": Column("priority_class.value", ColumnKind.NUMBER),
        "created_at": Column("created_at", ColumnKind.TIME),
    },
    every_s=0,
)


class GrantForm(forms.Form):
    """The form of a new grant."""

    tenant = forms.ChoiceField(label=gettext_lazy("Tenant"), widget=LongSelect())
    priority_class = forms.ChoiceField(label=gettext_lazy("Class"))

    def __init__(
        self, data: object = None, *, tenants: Sequence[TenantChoice], classes: Sequence[PriorityClass]
    ) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        tenant, found = self.fields["tenant"], self.fields["priority_class"]
        assert isinstance(tenant, forms.ChoiceField) and isinstance(found, forms.ChoiceField)  # noqa: S101
        tenant.choices = [(str(one.pk), one.name) for one in tenants]
        found.choices = [(one.name, f"{one.name} ({one.value})") for one in classes]


@login_required
def show_grants(request: HttpRequest) -> HttpResponse:
    """Show the grants of tenants in sight; POST creates one or revokes some."""
    who = get_viewer(request)
    may_grant = _may_grant(who)
    acts = [_revoke_act(who)] if may_grant else []
    set_frame(request, label=_("Priorities"), trail=_("Operations"))
    if is_batch(request):
        return answer_batch(request, acts=acts, find=partial(_find, who), back=request.path)
    listing = read_list(request, GRANTS)
    refused: RowForm | None = None
    if request.method == "POST":
        refused = _grant(request, who)
        if refused is None:
            return redirect(listing.address)
    if listing.form_of and not may_grant:
        raise PermissionDenied
    return answer_list(
        request,
        listing,
        listing.arrange_rows(priority_grant_list(viewer=who)),
        lambda found: [GrantLine(one, not _above(who, one.tenant)) for one in found],
        template="frontend/policies/priorities.html",
        context=lambda: {
            "sections": priority_sections(),
            "note": _("Applies to a tenant and its children"),
            "row": "frontend/policies/grant_row.html",
            "acts": acts,
            "batch_url": request.path,
            "add_label": _("Grant") if may_grant else "",
            "open_form": refused or (_form(_grant_form(who)) if listing.form_of == NEW else None),
            "empty_list": EmptyList(
                _("No grants"),
                _("Without a grant, a tenant can use classes with value 0 or lower."),
                icon="arrow-up-narrow-wide",
            ),
        },
        status=400 if refused else 200,
    )


def _above(who: User, tenant: Tenant) -> bool:
    return permissions.has_permission(who, Permission.QUEUE_EDIT, tenant.parent)


def _may_grant(who: User) -> bool:
    folders = permissions.tenants_with(who, Permission.QUEUE_EDIT).filter(kind=TenantKind.FOLDER)
    return folders.exists()


def _grant_form(who: User, data: object = None) -> GrantForm:
    tenants = tenant_choices(viewer=who)
    if not permissions.has_permission(who, Permission.QUEUE_EDIT):
        above = set(permissions.tenants_with(who, Permission.QUEUE_EDIT).values_list("pk", flat=True))
        tenants = [tenant for tenant in tenants if tenant.parent_id in above]
    classes = priority_class_all().filter(value__gt=0, retired_at__isnull=True)
    return GrantForm(data, tenants=tenants, classes=list(classes))


def _form(form: GrantForm) -> RowForm:
    return RowForm(title=_("Grant a priority class"), do="grant", button=_("Grant"), form=form)


def _grant(request: HttpRequest, who: User) -> RowForm | None:
    """Create a grant; return the form if it is refused."""
    tenant = tenant_get(viewer=who, tenant_id=id_of(request.POST.get("tenant", "")))
    if not _above(who, tenant):
        raise PermissionDenied
    form = _grant_form(who, request.POST)
    if not form.is_valid():
        return _form(form)
    found = priority_class_get(form.cleaned_data["priority_class"])
    try:
        priority_grant(acting_user=who, tenant=tenant, priority_class=found)
    except AllotmentError as error:
        show_refusal(form, error)
        return _form(form)
    word = _("%(name)s granted to %(tenant)s") % {"tenant": tenant.name, "name": found.name}
    messages.success(request, word)
    return None


def _revoke_act(who: User) -> BatchAct:
    return BatchAct(
        key="revoke",
        label=_("Revoke grant"),
        title=_("Revoke priority grants"),
        act=lambda grant, _choice: priority_revoke(acting_user=who, grant=grant),
        danger=True,
        note=_("Existing jobs keep their priority."),
        icon="x",
    )


def _find(who: User, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    found = [GrantLine(priority_grant_get(viewer=who, pk=pk), fixed=False) for pk in ids]
    return [BatchItem(id=line.id, name=line.title, row=line.grant) for line in found]
