"""Access keys: create (the secret is shown once), rotate, revoke."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core import clock
from foundation.core.errors import AllotmentError, NotFound
from foundation.web.listing import Column
from frontend.lists.batch import BatchAct, BatchItem, answer_batch, is_batch
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.lists.row_form import NEW, RowForm
from frontend.pages.account.key_sections import key_sections, may_manage
from frontend.pages.tenancy.members import id_of
from frontend.shell.form_actions import show_refusal
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from tenants.access import permissions
from tenants.models import AccessKey, Tenant, User
from tenants.selectors.access_key import KEY_COLUMNS, access_key_list
from tenants.selectors.account import service_account_get, service_account_list
from tenants.selectors.tenant import workspace_get
from tenants.services.access_key import access_key_create, access_key_revoke, access_key_rotate

_GRACE_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class KeyLine:
    """One access key in the list."""

    key: AccessKey

    @property
    def id(self) -> uuid.UUID:
        return self.key.pk

    @property
    def title(self) -> str:
        return self.key.name

    @property
    def scopes(self) -> str:
        return ", ".join(self.key.scopes)


KEYS: Final = ListDeclaration(
    key="keys",
    title=gettext_lazy("Access keys"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Name"), sort="name", text=lambda line: line.key.name),
        ListColumn(key="prefix", label=gettext_lazy("Prefix"), text=lambda line: f"alt_{line.key.prefix}"),
        ListColumn(
            key="owner", label=gettext_lazy("Owner"), sort="owner", text=lambda line: line.key.user.username
        ),
        ListColumn(
            key="scopes",
            label=gettext_lazy("Scopes"),
            text=lambda line: line.scopes or _("All permissions of the owner"),
        ),
        ListColumn(
            key="created",
            label=gettext_lazy("Created"),
            number=True,
            sort="created_at",
            shown=False,
            text=lambda line: line.key.created_at,
        ),
        ListColumn(
            key="expires",
            label=gettext_lazy("Expires"),
            number=True,
            sort="expires_at",
            text=lambda line: line.key.expires_at,
        ),
        ListColumn(
            key="used",
            label=gettext_lazy("Last used"),
            number=True,
            sort="last_used_at",
            text=lambda line: line.key.last_used_at,
        ),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Name")),
        "prefix": FilterField(label=gettext_lazy("Prefix")),
        "owner": FilterField(label=gettext_lazy("Owner")),
        "created_at": FilterField(label=gettext_lazy("Created")),
        "expires_at": FilterField(label=gettext_lazy("Expires")),
        "last_used_at": FilterField(label=gettext_lazy("Last used")),
    },
    fields={**KEY_COLUMNS, "owner": Column("user.username")},
    every_s=0,
)


class KeyForm(forms.Form):
    """The form of a new key: its name, owner, scopes and expiry."""

    name = forms.CharField(
        label=gettext_lazy("Description"),
        max_length=80,
        help_text=gettext_lazy("Example: CI pipeline"),
    )
    owner = forms.ChoiceField(label=gettext_lazy("Owner"))
    days = forms.TypedChoiceField(
        label=gettext_lazy("Expires in"),
        coerce=int,
        initial=90,
        choices=[
            (30, gettext_lazy("30 days")),
            (90, gettext_lazy("90 days")),
            (365, gettext_lazy("1 year")),
            (0, gettext_lazy("never")),
        ],
    )
    scopes = forms.MultipleChoiceField(
        label=gettext_lazy("Scopes"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("If no scope is selected, the key has all permissions of its owner."),
    )

    def __init__(self, data: object = None, *, owners: list[tuple[str, str]], points: list[str]) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        owner, scopes = self.fields["owner"], self.fields["scopes"]
        assert isinstance(owner, forms.ChoiceField) and isinstance(scopes, forms.MultipleChoiceField)  # noqa: S101
        owner.choices = owners
        scopes.choices = [(point, point) for point in points]


@login_required
def own_keys(request: HttpRequest) -> HttpResponse:
    """Show the user's own keys for all workspaces."""
    return _keys(request, None, reverse("frontend:account-keys"))


@login_required
def workspace_keys(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the user's own keys and those of the workspace's service accounts."""
    place = workspace_get(viewer=get_viewer(request), slug=workspace)
    return _keys(request, place, reverse("frontend:workspace-keys", args=[workspace]))


def _keys(request: HttpRequest, place: Tenant | None, url: str) -> HttpResponse:
    who = get_viewer(request)
    keys = access_key_list(viewer=who, tenant=place)
    acts = [_revoke_act(who)]
    set_frame(request, place)
    if is_batch(request):
        return answer_batch(request, acts=acts, find=partial(_find, who, place), back=url)
    listing = read_list(request, KEYS)
    refused: RowForm | None = None
    token = ""
    if request.method == "POST":
        refused, token = _save(request, who, place)
        if refused is None and not token:
            return redirect(listing.address)
    answer = answer_list(
        request,
        listing,
        listing.arrange_rows(keys),
        lambda found: [KeyLine(key) for key in found],
        template="frontend/tenancy/keys.html",
        context=lambda: {
            "workspace": place,
            "sections": key_sections(who, place),
            "token": token,
            "acts": acts,
            "batch_url": url,
            "row": "frontend/tenancy/key_row.html",
            "menu": "frontend/tenancy/key_menu.html",
            "empty_list": EmptyList(
                _("No access keys"),
                _("Create an access key for scripts, pipelines or the CLI."),
                icon="key-round",
            ),
            "open_form": refused or _open_form(who, place, listing.form_of if not token else ""),
        },
        status=400 if refused else 200,
    )
    # The response with a secret is not stored, not even for the back button.
    answer["Cache-Control"] = "no-store"
    return answer


def _new_form(who: User, place: Tenant | None, data: object = None) -> KeyForm:
    accounts: Sequence[User] = ()
    if place and may_manage(who, place):
        accounts = list(service_account_list(viewer=who, tenant=place))
    owners = [(who.username, _("Me")), *((account.username, account.username) for account in accounts)]
    points = permissions.permissions_on(who, place) if place else permissions.permissions_anywhere(who)
    form = KeyForm(data, owners=owners, points=sorted(point.value for point in points))
    form.fields["owner"].required = bool(accounts)
    if not accounts:
        form.fields["owner"].widget = forms.HiddenInput()
    return form


def _open_form(who: User, place: Tenant | None, asked: str) -> RowForm | None:
    if not asked:
        return None
    if asked == NEW:
        return _make_form(_new_form(who, place))
    key = _key(who, place, asked)
    return RowForm(
        title=_("Rotate %(name)s?") % {"name": key.name},
        do="rotate",
        button=_("Rotate"),
        row=str(key.pk),
        note=_("A new key is created. The old key stays valid for 24 hours."),
    )


def _make_form(form: KeyForm) -> RowForm:
    fields, word = "frontend/tenancy/key_fields.html", _("Create access key")
    return RowForm(title=word, do="make", button=word, form=form, fields=fields)


def _key(who: User, place: Tenant | None, text: str) -> AccessKey:
    found = access_key_list(viewer=who, tenant=place).filter(pk=id_of(text)).first()
    if found is None:
        raise NotFound
    return found


def _save(request: HttpRequest, who: User, place: Tenant | None) -> tuple[RowForm | None, str]:
    """Create or rotate a key; return the form if it is refused, and the token, which is shown once."""
    if request.POST.get("do") == "rotate":
        return None, _rotated(request, who, _key(who, place, request.POST.get("row", "")))
    form = _new_form(who, place, request.POST)
    if not form.is_valid():
        return _make_form(form), ""
    values = form.cleaned_data
    try:
        owner = who
        if values["owner"] not in ("", who.username) and place is not None:
            owner = service_account_get(viewer=who, tenant=place, name=values["owner"])
        ends = clock.now() + timedelta(days=values["days"]) if values["days"] else None
        return None, access_key_create(
            acting_user=who, user=owner, name=values["name"], scopes=values["scopes"], expires_at=ends
        )[1]
    except AllotmentError as error:
        show_refusal(form, error)
        return _make_form(form), ""


def _rotated(request: HttpRequest, who: User, key: AccessKey) -> str:
    try:
        token = access_key_rotate(acting_user=who, key=key, grace_s=_GRACE_S)[1]
    except AllotmentError as error:
        messages.error(request, error.detail)
        return ""
    word = _("Key rotated. The old key of %(name)s is valid for 24 hours.") % {"name": key.name}
    messages.success(request, word)
    return token


def _revoke_act(who: User) -> BatchAct:
    return BatchAct(
        key="revoke",
        label=_("Revoke"),
        title=_("Revoke access keys"),
        act=lambda key, _choice: access_key_revoke(acting_user=who, key=key),
        danger=True,
        note=_("Requests with this key fail immediately. This can't be undone."),
        icon="x",
    )


def _find(who: User, place: Tenant | None, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    found = list(access_key_list(viewer=who, tenant=place).filter(pk__in=ids))
    if len(found) < len(set(ids)):
        raise NotFound
    return [BatchItem(id=key.pk, name=key.name, row=key, state=f"alt_{key.prefix}") for key in found]
