"""The page of an invitation link: the invited user chooses a first password and is signed in."""

from __future__ import annotations

import uuid

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login, logout
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from foundation.core.errors import AllotmentError, NotFound
from foundation.models.branding import read_branding
from frontend.shell.form_actions import show_refusal
from tenants.services.invitation import find_invitation, invitation_accept


class FirstPasswordForm(forms.Form):
    """The form of a first password, entered twice."""

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

    def clean(self) -> dict[str, object]:
        cleaned: dict[str, object] = super().clean() or {}
        if "new" in cleaned and cleaned.get("again") not in (None, cleaned["new"]):
            self.add_error("again", _("Passwords don't match."))
        return cleaned


@never_cache
@require_http_methods(["GET", "POST"])
def show_invitation(request: HttpRequest, user: uuid.UUID, token: str) -> HttpResponse:
    """Show the form to any visitor with the link; POST sets the password and signs in."""
    try:
        invited = find_invitation(user, token)
    except NotFound as error:
        messages.error(request, error.detail)
        return redirect(settings.LOGIN_URL)
    form = FirstPasswordForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            accepted = invitation_accept(user_id=user, token=token, password=form.cleaned_data["new"])
        except NotFound as error:
            messages.error(request, error.detail)
            return redirect(settings.LOGIN_URL)
        except AllotmentError as error:
            show_refusal(form, error)
        else:
            logout(request)  # another user may be signed in in this browser
            login(request, accepted, backend="django.contrib.auth.backends.ModelBackend")
            words = {"product": read_branding().display_name, "name": accepted.username}
            messages.success(request, _("Welcome to %(product)s, %(name)s") % words)
            return redirect("frontend:home")
    page = {"invited": invited, "form": form}
    return render(request, "frontend/people/invitation.html", page, status=400 if form.errors else 200)
