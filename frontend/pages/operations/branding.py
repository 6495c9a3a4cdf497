"""The name and logo of the installation: the form of the system page, and the logo as an image."""

from __future__ import annotations

from typing import Final

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from foundation.core.errors import AllotmentError
from foundation.models.branding import forget_branding, read_branding, read_logo
from frontend.shell.form_actions import show_refusal
from frontend.shell.page_shell import get_viewer
from tenants.services.branding import LOGO_MAX, NAME_MAX, branding_update

_YEAR_S: Final = 31_536_000


class BrandingForm(forms.Form):
    """The form with the name and the logo."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        required=False,
        max_length=NAME_MAX,
        help_text=gettext_lazy("Shown at the top of each page and on the sign-in page. Empty: Allotment."),
    )
    logo = forms.FileField(
        label=gettext_lazy("Logo"),
        required=False,
        widget=forms.FileInput(attrs={"accept": "image/png,image/jpeg,image/webp"}),
        help_text=gettext_lazy("PNG, JPEG or WebP, at most 128 KiB. Height on pages: 24 pixels."),
    )
    remove_logo = forms.BooleanField(label=gettext_lazy("Remove logo"), required=False)

    def __init__(self, *given: object, **named: object) -> None:
        super().__init__(*given, **named)  # type: ignore[arg-type]
        forget_branding()  # another process may have changed the stored values
        if not read_branding().logo_mark:
            del self.fields["remove_logo"]


def make_form() -> BrandingForm:
    """Return the form with the present values."""
    forget_branding()
    return BrandingForm(initial={"name": read_branding().name})


def change_branding(request: HttpRequest) -> BrandingForm | None:
    """Store the values of the form; return the form if it is refused. Raises: PermissionDenied."""
    form = BrandingForm(request.POST, request.FILES)
    if not form.is_valid():
        return form
    upload = form.cleaned_data["logo"]
    try:
        branding_update(
            acting_user=get_viewer(request),
            name=form.cleaned_data["name"],
            # One byte more than the maximum is enough for a refusal.
            logo=upload.read(LOGO_MAX + 1) if upload else None,
            remove_logo=form.cleaned_data.get("remove_logo", False),
        )
    except AllotmentError as error:
        show_refusal(form, error)
        return form
    messages.success(request, _("Name and logo saved"))
    return None


@require_GET
def show_logo(request: HttpRequest, mark: str) -> HttpResponse:
    """Return the logo as an image, without signing in, for the sign-in page. Raises: Http404."""
    found = read_logo(mark)
    if found is None:
        raise Http404
    answer = HttpResponse(found[0], content_type=found[1])
    answer["Cache-Control"] = f"public, max-age={_YEAR_S}, immutable"
    answer["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return answer
