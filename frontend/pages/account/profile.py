"""The user's own account: name and roles, password, language."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts import formats
from frontend.texts.labels import role_word
from tenants.models import User
from tenants.selectors.member import membership_list
from tenants.services.account import WrongPassword, password_change
from tenants.services.password_attempt import counted_attempt


class PasswordForm(forms.Form):
    """The form of a new password: the old one once, the new one twice."""

    old = forms.CharField(
        label=gettext_lazy("Current password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    new = forms.CharField(
        label=gettext_lazy("New password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy(
            "At least 12 characters. Can't be a common password or similar to your username."
        ),
    )
    again = forms.CharField(
        label=gettext_lazy("Confirm new password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, data: object = None, *, user: User) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        self.user = user

    def clean_new(self) -> str:
        new: str = self.cleaned_data["new"]
        validate_password(new, self.user)
        return new

    def clean(self) -> dict[str, object]:
        cleaned: dict[str, object] = super().clean() or {}
        if "new" in cleaned and cleaned.get("again") not in (None, cleaned["new"]):
            self.add_error("again", _("Passwords don't match."))
        if "new" in cleaned and cleaned.get("old") == cleaned["new"]:
            self.add_error("new", _("The new password must differ from the current one."))
        return cleaned


@login_required
def show_account(request: HttpRequest) -> HttpResponse:
    """Show the account; POST changes the password, keeps this session and ends all others."""
    who = get_viewer(request)
    form = PasswordForm(request.POST if request.method == "POST" else None, user=who)
    if request.method == "POST" and form.is_valid() and _changed(request, who, form):
        update_session_auth_hash(request, who)
        messages.success(request, _("Password changed. You were signed out of other sessions."))
        return redirect("frontend:home")
    set_frame(request)
    page = {"form": form, "facts": _facts(request, who), "memberships": _memberships(who)}
    return render(request, "frontend/account/account.html", page)


def _changed(request: HttpRequest, who: User, form: PasswordForm) -> bool:
    values = form.cleaned_data
    try:
        with counted_attempt(request, who):
            password_change(acting_user=who, old_password=values["old"], new_password=values["new"])
    except WrongPassword:
        form.add_error("old", ValidationError(_("Current password is incorrect.")))
    except AllotmentError as error:
        form.add_error(None, error.detail)
    return form.is_valid()


def _facts(request: HttpRequest, who: User) -> list[tuple[str, object]]:
    ends = request.session.get_expiry_date()
    found: list[tuple[str, object]] = [(_("Username"), who.get_username())]
    if who.email:
        found.append((_("Email"), who.email))
    if who.must_change_password and who.password_expires_at:
        found.append((_("One-time password expires"), formats.clock_html(who.password_expires_at)))
    if who.last_login:
        found.append((_("Signed in at"), formats.clock_html(who.last_login)))
    return [*found, (_("Session expires at"), formats.clock_html(ends))]


def _memberships(who: User) -> list[tuple[str, str]]:
    """Return the tenants and roles of the user."""
    return [
        (member.tenant.name if member.tenant else _("Platform"), role_word(member.role_name))
        for member in membership_list(viewer=who)
    ]
