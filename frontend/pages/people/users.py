"""User accounts for platform admins: search, invite, create, and the actions on each."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from django import forms
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError
from foundation.core.sentences import join_sentences
from foundation.web.listing import filter_rows
from frontend.components import view_models
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.pages.people.links import console_address
from frontend.pages.people.user_batch import batch_acts
from frontend.pages.people.user_columns import USERS, UserLine
from frontend.shell.form_actions import run_change, show_refusal, version_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts import formats
from frontend.texts.labels import role_word
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Member, User
from tenants.selectors.account import user_get
from tenants.selectors.user import UserOverview, UserState, user_overviews, user_query
from tenants.services.account import password_set, user_create, user_end_access, user_set_active, user_unlock
from tenants.services.invitation import invitation_renew, user_invite

_PASSWORD_BYTES: Final = 12
STATES: Final[dict[UserState, tuple[str | Promise, str]]] = {
    UserState.ACTIVE: (gettext_lazy("Active"), "running"),
    UserState.INVITED: (gettext_lazy("Invited"), "info"),
    UserState.ONE_TIME: (gettext_lazy("One-time password"), "waiting"),
    UserState.LOCKED: (gettext_lazy("Locked"), "failed"),
    UserState.DISABLED: (gettext_lazy("Disabled"), "done"),
}


class UserForm(forms.Form):
    """The form of a new account."""

    username = forms.CharField(
        label=gettext_lazy("Username"), max_length=150, widget=forms.TextInput(attrs={"autocomplete": "off"})
    )
    email = forms.EmailField(
        label=gettext_lazy("Email"),
        required=False,
        widget=forms.EmailInput(attrs={"autocomplete": "off"}),
    )


@dataclass(frozen=True, slots=True)
class ShownOnce:
    """A secret that only this response shows: its title, its text, what to do with it, and its expiry."""

    title: str
    text: str
    help: str
    expires_at: datetime


@login_required
def show_users(request: HttpRequest) -> HttpResponse:
    """Show all user accounts; POST invites a user or creates an account."""
    who = get_viewer(request)
    permissions.require_permission(who, Permission.MEMBER_EDIT)
    form = UserForm(request.POST if request.method == "POST" else None)
    shown: ShownOnce | None = None
    if request.method == "POST" and form.is_valid():
        try:
            shown = _create(request, who, form.cleaned_data)
        except AllotmentError as error:
            show_refusal(form, error)
    set_frame(request, label=_("Users"), trail=_("Operations"))
    listing = read_list(request, USERS, {"state": [state.value for state in STATES]})
    found = user_query(
        viewer=who,
        text=listing.query.get("q", "").strip(),
        state=_state(listing.query.get("state", "")),
        sort=listing.sort,
    )
    answer = answer_list(
        request,
        listing,
        filter_rows(found, listing.conditions),
        lambda users: [_line(one) for one in user_overviews(viewer=who, users=users)],
        template="frontend/people/users.html",
        context=lambda: {
            "states": [
                view_models.Chip(label=_("All")),
                *(view_models.Chip(label=str(w), value=state.value) for state, (w, _t) in STATES.items()),
            ],
            "asked": listing.query,
            "form": UserForm() if shown else form,
            "opened": bool(form.errors),
            "shown": shown,
            "mail": bool(settings.EMAIL_HOST),
            "row": "frontend/people/user_row.html",
            "acts": batch_acts(who),
            "batch_url": reverse("frontend:ops-users-batch"),
            "empty_list": EmptyList(_("No users"), _("Invite the first user below."), "#new", icon="user"),
        },
        status=400 if form.errors else 200,
    )
    return _never_stored(answer) if shown else answer


@login_required
def show_user(request: HttpRequest, user: uuid.UUID) -> HttpResponse:
    """Show one account; POST changes it."""
    who = get_viewer(request)
    found = user_get(viewer=who, user_id=user)
    shown: ShownOnce | None = None
    if request.method == "POST":
        permissions.require_over(who, found)
        shown = _act(request, who, found)
        if shown is None:
            return redirect("frontend:ops-user", user=found.pk)
        found = user_get(viewer=who, user_id=user)
    set_frame(request, label=_("Users"), trail=found.username)
    overview = user_overviews(viewer=who, users=[found])[0]
    word, tone = STATES[overview.state]
    context = {
        "found": found,
        "overview": overview,
        "state": word,
        "tone": tone,
        "facts": _facts(overview),
        "roles": [_role(member) for member in overview.roles],
        "is_self": who.pk == found.pk,
        "is_over": permissions.is_over(who, found),
        "shown": shown,
        "crumbs": [view_models.Crumb(label=_("Users"), url=reverse("frontend:ops-users"))],
    }
    answer = render(request, "frontend/people/user.html", context)
    return _never_stored(answer) if shown else answer


def _never_stored(answer: HttpResponse) -> HttpResponse:
    # The response with a secret is not stored, not even for the back button.
    answer["Cache-Control"] = "no-store"
    return answer


def _state(text: str) -> UserState | None:
    return UserState(text) if text in set(UserState) else None


def _create(request: HttpRequest, who: User, values: dict[str, Any]) -> ShownOnce:
    if request.POST.get("do") == "create":
        password = secrets.token_urlsafe(_PASSWORD_BYTES)
        made = user_create(acting_user=who, password=password, must_change_password=True, **values)
        return _password_shown(made, password)
    address = console_address(request)
    invitation = user_invite(acting_user=who, address=address, **values)
    return _link_shown(invitation.user, f"{address}{invitation.path}", emailed=invitation.emailed)


def _password_shown(user: User, password: str) -> ShownOnce:
    title = _("One-time password of %(name)s") % {"name": user.username}
    text = _("Copy it now. It won't be shown again and must be changed at the first sign-in.")
    return ShownOnce(title, password, text, _end(user))


def _link_shown(user: User, link: str, *, emailed: bool) -> ShownOnce:
    title = _("Invitation link for %(name)s") % {"name": user.username}
    text = _("Copy it now. It won't be shown again and sets the first password once.")
    if emailed:
        text = join_sentences([text, _("Also sent to %(email)s.") % {"email": user.email}])
    return ShownOnce(title, link, text, _end(user))


def _end(user: User) -> datetime:
    end = user.password_expires_at
    assert end is not None  # noqa: S101
    return end


def _line(overview: UserOverview) -> UserLine:
    word, tone = STATES[overview.state]
    roles = [_role(member) for member in overview.roles]
    return UserLine(overview, str(word), tone, _sign_in(overview), roles)


def _sign_in(overview: UserOverview) -> str:
    """Return the sign-in method of the user."""
    local = overview.user.has_usable_password()
    if overview.providers:
        return _("Identity provider and password") if local else _("Identity provider (OIDC)")
    return _("Password") if local else "–"


def _role(member: Member) -> tuple[str, str]:
    """Return a role as text, and the page where it is managed."""
    place = member.tenant.name if member.tenant else _("Platform")
    words = {"role": role_word(member.role_name), "place": place}
    text = _("%(role)s on %(place)s") % words
    if member.group is not None:
        text = _("%(role)s on %(place)s by %(group)s") % (words | {"group": member.group.name})
    return text, reverse("frontend:ops-tenant", args=[member.tenant.pk]) if member.tenant else ""


def _facts(overview: UserOverview) -> list[tuple[str, object]]:
    user = overview.user
    found: list[tuple[str, object]] = [(_("Email"), user.email or "–"), (_("Sign-in"), _sign_in(overview))]
    if user.must_change_password and user.password_expires_at:
        label = _("Invitation expires") if user.is_invited else _("One-time password expires")
        found.append((label, formats.clock_html(user.password_expires_at)))
    last = formats.clock_html(user.last_login) if user.last_login else _("never")
    return [
        *found,
        (_("Created"), formats.clock_html(user.date_joined)),
        (_("Last sign-in"), last),
        (_("Access keys"), formats.format_number(overview.keys)),
    ]


def _act(request: HttpRequest, who: User, found: User) -> ShownOnce | None:
    """Run the action of the form; return the secret to show, if any."""
    what, version, words = request.POST.get("do"), version_of(request), {"name": found.username}
    if what == "password":
        return _reset(request, who, found)
    if what == "invite":
        address, links = console_address(request), list[ShownOnce]()

        def renew_invitation() -> None:
            made = invitation_renew(acting_user=who, user=found, address=address, expected=version)
            links.append(_link_shown(made.user, f"{address}{made.path}", emailed=made.emailed))

        run_change(request, renew_invitation, _("New invitation for %(name)s created") % words)
        return links[0] if links else None
    keys, sessions = request.POST.get("keys") == "on", request.POST.get("sessions") == "on"
    changes: dict[str | None, tuple[Callable[[], object], str]] = {
        "disable": (
            partial(user_set_active, acting_user=who, user=found, active=False, expected=version),
            _("User %(name)s disabled"),
        ),
        "enable": (
            partial(user_set_active, acting_user=who, user=found, active=True, expected=version),
            _("User %(name)s enabled"),
        ),
        "unlock": (partial(user_unlock, acting_user=who, user=found), _("Sign-in of %(name)s unlocked")),
        "end-access": (
            partial(
                user_end_access, acting_user=who, user=found, sessions=sessions, keys=keys, expected=version
            ),
            _("Access of %(name)s ended"),
        ),
    }
    if what in changes:
        change, word = changes[what]
        run_change(request, change, word % words)
    return None


def _reset(request: HttpRequest, who: User, found: User) -> ShownOnce | None:
    password, keep = secrets.token_urlsafe(_PASSWORD_BYTES), request.POST.get("keep_keys") == "on"
    word = _("Password of %(name)s reset") % {"name": found.username}
    reset = partial(password_set, acting_user=who, user=found, password=password, keep_keys=keep)
    return _password_shown(found, password) if run_change(request, reset, word) else None
