"""Access keys: make (the secret is shown once), rotate, revoke; and a workspace's service accounts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core import clock
from foundation.core.errors import AllotmentError, NotFound
from frontend.shell.form_actions import run_change
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.access_key import access_key_get, access_key_list
from tenants.selectors.account import service_account_get, service_account_list
from tenants.selectors.tenant import workspace_get
from tenants.services.access_key import access_key_create, access_key_revoke, access_key_rotate
from tenants.services.service_account import service_account_close, service_account_create

_GRACE_S = 24 * 3600


class KeyForm(forms.Form):
    """A new key: what it is for, whose it is, what it may do, how long it lives."""

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
    """One's own keys, wherever they work."""
    return _keys(request, None, reverse("frontend:account-keys"))


@login_required
def workspace_keys(request: HttpRequest, workspace: str) -> HttpResponse:
    """One's own keys and those of the workspace's service accounts."""
    place = workspace_get(viewer=get_viewer(request), slug=workspace)
    return _keys(request, place, reverse("frontend:workspace-keys", args=[workspace]))


def _keys(request: HttpRequest, place: Tenant | None, url: str) -> HttpResponse:
    who = get_viewer(request)
    manages = place is not None and permissions.has_permission(who, Permission.MEMBER_EDIT, place)
    accounts = list(service_account_list(viewer=who, tenant=place)) if place and manages else []
    owners = [(who.username, _("Me")), *((account.username, account.username) for account in accounts)]
    points = sorted(
        permissions.permissions_on(who, place) if place else permissions.permissions_anywhere(who)
    )
    making = request.method == "POST" and request.POST.get("do") == "make"
    form = KeyForm(request.POST if making else None, owners=owners, points=[p.value for p in points])
    form.fields["owner"].required = bool(accounts)
    token = ""
    if making:
        token = _made(request, who, place, form)
    elif request.method == "POST":
        token = _act(request, who, place)
        if not token:
            return redirect(url)
    set_frame(request, place)
    page: dict[str, Any] = {
        "form": KeyForm(None, owners=owners, points=[p.value for p in points]) if token else form,
        "token": token,
        "keys": access_key_list(viewer=who, tenant=place),
        "accounts": accounts,
        "manages": manages,
        "keys_url": url,
        "place": place,
    }
    answer = render(request, "frontend/tenancy/keys.html", page, status=200 if token or not making else 400)
    # The one answer with a secret in it stays nowhere, not even behind the back button.
    answer["Cache-Control"] = "no-store"
    return answer


def _made(request: HttpRequest, who: User, place: Tenant | None, form: KeyForm) -> str:
    """The token of a new key, or nothing and errors in the form."""
    if not form.is_valid():
        return ""
    values = form.cleaned_data
    try:
        owner = who
        if values["owner"] not in ("", who.username) and place is not None:
            owner = service_account_get(viewer=who, tenant=place, name=values["owner"])
        ends = clock.now() + timedelta(days=values["days"]) if values["days"] else None
        return access_key_create(
            acting_user=who, user=owner, name=values["name"], scopes=values["scopes"], expires_at=ends
        )[1]
    except NotFound:
        raise
    except AllotmentError as error:
        form.add_error(None, error.detail)
        return ""


def _act(request: HttpRequest, who: User, place: Tenant | None) -> str:
    """Revoke or rotate a key, make or end a service account; the token of a rotated key, else nothing."""
    asked, what = request.POST, request.POST.get("do")
    name = asked.get("name", "").strip()
    if what == "add-account" and place is not None:
        word = _("Service account created. Assign a role under Members, then create an access key.")
        run_change(request, lambda: service_account_create(acting_user=who, tenant=place, name=name), word)
    elif what == "end-account" and place is not None:
        account = service_account_get(viewer=who, tenant=place, name=name)
        word = _("Service account %(name)s deleted") % {"name": account.username}
        run_change(request, lambda: service_account_close(acting_user=who, account=account), word)
    else:
        key = access_key_get(viewer=who, prefix=asked.get("key", ""), tenant=place)
        if what == "rotate":
            tokens: list[str] = []
            word = _("Key rotated. The old key of %(name)s is valid for 24 hours.") % {"name": key.name}
            run_change(
                request,
                lambda: tokens.append(access_key_rotate(acting_user=who, key=key, grace_s=_GRACE_S)[1]),
                word,
            )
            return "".join(tokens)
        word = _("Access key %(name)s revoked") % {"name": key.name}
        run_change(request, lambda: access_key_revoke(acting_user=who, key=key), word)
    return ""
