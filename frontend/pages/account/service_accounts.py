"""The service accounts of a workspace: create and delete."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError, NotFound
from foundation.web.listing import Column, ColumnKind
from frontend.lists.batch import BatchAct, BatchItem, answer_batch, is_batch
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.lists.row_form import NEW, RowForm
from frontend.pages.account.key_sections import key_sections
from frontend.shell.form_actions import show_refusal
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from tenants.models import Tenant, User
from tenants.selectors.account import service_account_list
from tenants.selectors.tenant import workspace_get
from tenants.services.service_account import service_account_close, service_account_create


@dataclass(frozen=True, slots=True)
class AccountLine:
    """One service account in the list."""

    account: User

    @property
    def id(self) -> uuid.UUID:
        return self.account.pk

    @property
    def title(self) -> str:
        return self.account.username


ACCOUNTS: Final = ListDeclaration(
    key="accounts",
    title=gettext_lazy("Service accounts"),
    columns=(
        ListColumn(
            key="name", label=gettext_lazy("Name"), sort="username", text=lambda line: line.account.username
        ),
        ListColumn(
            key="created",
            label=gettext_lazy("Created"),
            number=True,
            sort="created_at",
            text=lambda line: line.account.date_joined,
        ),
    ),
    filters={
        "username": FilterField(label=gettext_lazy("Name")),
        "created_at": FilterField(label=gettext_lazy("Created")),
    },
    fields={"username": Column("username"), "created_at": Column("date_joined", ColumnKind.TIME)},
    default_sort="username",
    every_s=0,
)


class AccountForm(forms.Form):
    """The form of a new service account."""

    name = forms.CharField(
        label=gettext_lazy("Name"), max_length=63, help_text=gettext_lazy("Name, for example ci")
    )


@login_required
def show_accounts(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the service accounts of a workspace; POST creates one or deletes some."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    accounts = service_account_list(viewer=who, tenant=place)
    set_frame(request, place)
    acts = [_end_act(who)]
    if is_batch(request):
        return answer_batch(request, acts=acts, find=partial(_find, who, place), back=request.path)
    listing = read_list(request, ACCOUNTS)
    refused: RowForm | None = None
    if request.method == "POST":
        refused = _create(request, who, place)
        if refused is None:
            return redirect(listing.address)
    return answer_list(
        request,
        listing,
        listing.arrange_rows(accounts),
        lambda found: [AccountLine(account) for account in found],
        template="frontend/tenancy/service_accounts.html",
        context=lambda: {
            "workspace": place,
            "sections": key_sections(who, place),
            "acts": acts,
            "batch_url": request.path,
            "row": "frontend/tenancy/service_account_row.html",
            "empty_list": EmptyList(
                _("No service accounts"), _("Non-human accounts for CI/CD and automation"), icon="bot"
            ),
            "open_form": refused or (_form(AccountForm()) if listing.form_of == NEW else None),
        },
        status=400 if refused else 200,
    )


def _form(form: AccountForm) -> RowForm:
    word = _("Create service account")
    return RowForm(title=word, do="create", button=word, form=form)


def _create(request: HttpRequest, who: User, place: Tenant) -> RowForm | None:
    form = AccountForm(request.POST)
    if not form.is_valid():
        return _form(form)
    try:
        service_account_create(acting_user=who, tenant=place, name=form.cleaned_data["name"])
    except AllotmentError as error:
        show_refusal(form, error)
        return _form(form)
    messages.success(
        request, _("Service account created. Assign a role under Members, then create an access key.")
    )
    return None


def _end_act(who: User) -> BatchAct:
    return BatchAct(
        key="end",
        label=_("Delete account"),
        title=_("Delete service accounts"),
        act=lambda account, _choice: service_account_close(acting_user=who, account=account),
        danger=True,
        note=_("Its access keys and roles are deleted immediately. Its jobs are kept."),
        icon="trash-2",
    )


def _find(who: User, place: Tenant, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    found = list(service_account_list(viewer=who, tenant=place).filter(pk__in=ids))
    if len(found) < len(set(ids)):
        raise NotFound
    return [BatchItem(id=account.pk, name=account.username, row=account) for account in found]
