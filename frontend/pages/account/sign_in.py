"""Signing in and out."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from tenants.models import User
from tenants.sign_in.sign_in_limits import is_slowed

LOCKED_OUT_STATUS = 429


class SignInForm(AuthenticationForm):
    """The form with user name and password."""

    def confirm_login_allowed(self, user: User) -> None:
        """Refuse a one-time password that was not changed in time."""
        super().confirm_login_allowed(user)
        if user.password_expired:
            message = _("This one-time password has expired. Contact a platform admin.")
            raise ValidationError(message, code="expired")


class SignIn(LoginView):
    """The sign-in page; a user who is signed in already is redirected."""

    template_name = "frontend/login.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the form, and the identity providers that it offers: (name, address)."""
        apps = settings.SOCIALACCOUNT_PROVIDERS.get("openid_connect", {}).get("APPS", [])
        providers = [
            (app["name"], reverse("openid_connect_login", args=[app["provider_id"]])) for app in apps
        ]
        return super().get_context_data(**kwargs) | {"providers": providers}


def locked_out(
    request: HttpRequest, response: HttpResponse | None = None, credentials: dict[str, Any] | None = None
) -> HttpResponse:
    """Return the sign-in page after too many wrong passwords; axes calls this in place of its own page."""
    context = {
        "form": AuthenticationForm(request),
        "locked": True,
        "slowed": is_slowed(request),
        "next": request.POST.get("next", ""),
    }
    return render(request, "frontend/login.html", context, status=LOCKED_OUT_STATUS)
