"""Quotas as a file: its changes are shown before they are applied."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError, NotFound
from frontend.components import view_models
from frontend.pages.quotas.rows import TITLES
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from quotas.files import FILE_BOUNDS, FileFormat, find_format
from quotas.services.quota import Shrink
from quotas.services.quota_files.quota_file import (
    QuotaDifference,
    QuotaFile,
    quota_file_apply,
    quota_file_check,
)
from quotas.services.quota_plan import PlannedQuota
from quotas.texts.amounts import format_change
from tenants.models import User

LARGEST: Final = FILE_BOUNDS.size
_ENDINGS: Final = (".csv", ".yaml", ".yml", ".json")


class FileForm(forms.Form):
    """A quota file, uploaded or pasted, and how it is applied."""

    upload = forms.FileField(label=gettext_lazy("File"), required=False)
    text = forms.CharField(
        label=gettext_lazy("Or paste content"),
        required=False,
        max_length=LARGEST,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 14}),
    )
    kind = forms.ChoiceField(
        label=gettext_lazy("Format"),
        choices=[(FileFormat.YAML.value, "YAML"), (FileFormat.CSV.value, "CSV")],
    )
    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=500, required=False)
    shrink = forms.ChoiceField(
        label=gettext_lazy("If usage exceeds the new quota"),
        required=False,
        choices=[
            ("", gettext_lazy("Reject the file")),
            (Shrink.LET_RUN.value, gettext_lazy("Keep running; reclaim on demand")),
            (Shrink.DRAIN.value, gettext_lazy("Preempt now")),
        ],
    )

    def clean_upload(self) -> str:
        found = self.cleaned_data["upload"]
        if not isinstance(found, UploadedFile):
            return ""
        if found.size is None or found.size > LARGEST:
            message = _("The file is larger than %(limit)s KiB. Split it, for example by tenant.")
            raise forms.ValidationError(message % {"limit": LARGEST // 1024})
        try:
            return str(found.read(), "utf-8-sig")
        except UnicodeDecodeError as error:
            raise forms.ValidationError(_("The file isn't UTF-8 text.")) from error

    def clean(self) -> dict[str, Any]:
        """Return the fields; the name of an uploaded file decides about its format."""
        values = super().clean() or {}
        text = values.get("upload") or values.get("text", "")
        if not self.errors and not text.strip():
            self.add_error("upload", _("Select a file, or paste its content."))
        file = self.files.get("upload")
        name = (file.name or "") if file else ""
        if name.lower().endswith(_ENDINGS):
            values["kind"] = find_format(name).value
        return {**values, "text": text}

    def read_file(self) -> QuotaFile:
        """Return the quota file that was uploaded or pasted."""
        kind = FileFormat(self.cleaned_data["kind"])
        return QuotaFile(self.cleaned_data["text"], kind, f"quotas.{kind.value}")


@login_required
def quota_file(request: HttpRequest) -> HttpResponse:
    """Show the form; POST shows the difference, and with `do=apply` sets it."""
    who = get_viewer(request)
    if request.method != "POST":
        return _show(request, FileForm(), None)
    form = FileForm(request.POST, request.FILES)
    if not form.is_valid():
        return _show(request, form, None, status=400)
    try:
        difference = quota_file_check(acting_user=who, file=form.read_file())
        if request.POST.get("do") == "apply":
            _apply(request, who, form)
            return redirect("frontend:ops-quotas")
    except NotFound:
        raise
    except AllotmentError as error:
        form.add_error(None, error.detail)
        for wrong in error.errors:
            form.add_error("text", f"{wrong.field}{_(': ')}{wrong.message}")
        return _show(request, form, None, status=400)
    typed = {**form.cleaned_data, "upload": None}
    return _show(request, FileForm(initial=typed), difference)


def _apply(request: HttpRequest, who: User, form: FileForm) -> None:
    chosen = form.cleaned_data["shrink"]
    quota_file_apply(
        acting_user=who,
        file=form.read_file(),
        reason=form.cleaned_data["reason"],
        shrink=Shrink(chosen) if chosen else None,
    )
    messages.success(request, _("File applied. See the change history."))


def _show(
    request: HttpRequest, form: FileForm, difference: QuotaDifference | None, status: int = 200
) -> HttpResponse:
    set_frame(request, label=_("File"), trail=_("Quotas"))
    page = {
        "form": form,
        "checked": difference is not None,
        "changes": [
            (difference.names[one.node.pk], one.flavor.name, TITLES[one.resource], _moves(one))
            for one in difference.changes
        ]
        if difference
        else [],
        "crumbs": [view_models.Crumb(label=_("Quotas"), url=reverse("frontend:ops-quotas"))],
    }
    return render(request, "frontend/quotas/file.html", page, status=status)


def _moves(one: PlannedQuota) -> list[str]:
    """Return the limits of one line before and after, as text."""
    before, after = one.before, one.after
    limits = (
        (_("nominal"), before.nominal, after.nominal),
        (_("borrowing limit"), before.borrowing_limit, after.borrowing_limit),
        (_("lending limit"), before.lending_limit, after.lending_limit),
    )
    return [
        f"{word}{_(': ')}{format_change(one.resource, old, new)}" for word, old, new in limits if old != new
    ]
