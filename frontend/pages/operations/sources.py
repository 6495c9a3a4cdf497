"""One data source: its state, its settings, and a test of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from clusters.gpu.measures import BY_NAME
from foundation.core.errors import AllotmentError, NotFound, PermissionDenied
from foundation.core.sentences import join_sentences
from frontend.components import view_models
from frontend.pages.operations.cluster_scope import ops_frame, scope_of
from frontend.shell.form_actions import run_change, show_refusal, version_of
from frontend.shell.page_shell import get_viewer, operator_required
from telemetry.models import SourceKind, TelemetrySource
from telemetry.sources.fetch import problem_text
from telemetry.sources.manage import (
    ADDRESS_MAX,
    EVERY_S_MAX,
    EVERY_S_MIN,
    source_change,
    source_delete,
    source_try,
)
from telemetry.sources.overview import (
    NodeState,
    SourceLine,
    describe_result,
    describe_sources,
    source_get,
)
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

_NODES_SHOWN = 200


class SourceForm(forms.Form):
    """The form of a data source; labels of a Prometheus server are entered one per line."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=63)
    kind = forms.ChoiceField(label=gettext_lazy("Type"), choices=SourceKind.choices)
    address = forms.CharField(
        label=gettext_lazy("Address"),
        max_length=ADDRESS_MAX,
        help_text=gettext_lazy(
            "Exporter: address of its metrics page; {node} stands for each GPU node. "
            "Prometheus: base address of the server."
        ),
    )
    every_s = forms.IntegerField(
        label=gettext_lazy("Interval in seconds"), min_value=EVERY_S_MIN, max_value=EVERY_S_MAX, initial=15
    )
    matchers = forms.CharField(
        label=gettext_lazy("Label filters"),
        required=False,
        max_length=3000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=gettext_lazy("Prometheus only. One per line, for example cluster=prod-1"),
    )
    user = forms.CharField(label=gettext_lazy("Username"), max_length=100, required=False)
    secret = forms.CharField(
        label=gettext_lazy("Token or password"),
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("Stored encrypted."),
    )
    forget = forms.BooleanField(label=gettext_lazy("Remove the stored credential"), required=False)
    authority = forms.CharField(
        label=gettext_lazy("Certificate authority (PEM)"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("Only for servers with a private certificate authority."),
    )
    history = forms.BooleanField(
        label=gettext_lazy("Use for charts"),
        required=False,
        help_text=gettext_lazy(
            "Prometheus only. Charts of GPUs and jobs are filled from this server where data is missing."
        ),
    )
    enabled = forms.BooleanField(label=gettext_lazy("Enabled"), required=False, initial=True)

    def __init__(self, *arguments: Any, stored: bool = False, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if stored:
            self.fields["secret"].help_text = _("Stored encrypted. Leave blank to keep the current one.")

    def clean_matchers(self) -> dict[str, str]:
        """Turn lines of `label=value` into labels."""
        found = {}
        for line in self.cleaned_data["matchers"].splitlines():
            label, equals, value = line.strip().partition("=")
            if line.strip() and not equals:
                raise forms.ValidationError(_("Enter one label=value per line."))
            if line.strip():
                found[label.strip()] = value.strip().strip('"')
        return found

    def fields_of(self) -> dict[str, Any]:
        """Return the values that the service takes; a blank credential stays as it is."""
        fields = dict(self.cleaned_data)
        secret, forget = fields.pop("secret"), fields.pop("forget")
        return fields | ({"secret": ""} if forget and not secret else {"secret": secret or None})


def view_source(line: SourceLine) -> dict[str, Any]:
    """Return a source as its row and its page show it."""
    status = line.status
    return {
        "line": line,
        "source": line.source,
        "kind": SourceKind(line.source.kind).label,
        "state": line.state.value,
        "problem": problem_text(status.problem, status.detail) if status else "",
        "fresh": line.count_nodes(NodeState.FRESH),
        "expected": len(line.nodes),
        "per_minute": line.samples_per_minute,
        "measures": [_measure(name) for name in line.measures],
    }


def _measure(said: str) -> Mapping[str, str]:
    level, _dot, name = said.partition(".")
    measure = BY_NAME.get(name)
    words = {"device": "GPU", "slice": _("Slice"), "process": _("Process")}
    return {"level": words.get(level, level), "name": name, "unit": measure.unit if measure else ""}


@operator_required
def show_source(request: HttpRequest, source: uuid.UUID) -> HttpResponse:
    """Show one source; POST changes, tests or deletes it."""
    who, scope = get_viewer(request), scope_of(request)
    found = source_get(viewer=who, pk=source)
    form, result = SourceForm(initial=_initial(found), stored=bool(found.secret)), None
    if request.method == "POST":
        what = request.POST.get("do")
        if what == "delete":
            word = _("Data source %(name)s deleted") % {"name": found.name}
            remove = partial(source_delete, acting_user=who, source=found, expected=version_of(request))
            deleted = run_change(request, remove, word, now=partial(_now, who, found))
            return (
                redirect("frontend:ops-sources")
                if deleted
                else redirect("frontend:ops-source", source=source)
            )
        if what == "test":
            result = describe_result(source_try(acting_user=who, source=found))
        else:
            form = SourceForm(request.POST, stored=bool(found.secret))
            if form.is_valid() and _changed(request, who, found, form):
                return redirect("frontend:ops-source", source=found.pk)
            found = source_get(viewer=who, pk=source)
    ops_frame(request, scope, path=reverse("frontend:ops-sources"))
    page = {
        **_one(found),
        "form": form,
        "result": _result(result),
        "may_edit": permissions.has_permission(who, Permission.CLUSTER_EDIT),
        "crumbs": [view_models.Crumb(label=_("Data sources"), url=reverse("frontend:ops-sources"))],
    }
    return render(request, "frontend/operations/source.html", page, status=400 if form.errors else 200)


@require_GET
@operator_required
def source_live(request: HttpRequest, source: uuid.UUID) -> HttpResponse:
    """Show the state of one source alone."""
    found = source_get(viewer=get_viewer(request), pk=source)
    return render(request, "frontend/operations/source_live.html", _one(found))


def _one(found: TelemetrySource) -> dict[str, Any]:
    (line,) = describe_sources([found])
    nodes = sorted(line.nodes, key=lambda node: (node.state == NodeState.FRESH, node.node))
    return {
        **view_source(line),
        "nodes": nodes[:_NODES_SHOWN],
        "omitted": max(0, len(nodes) - _NODES_SHOWN),
        "live_url": reverse("frontend:ops-source-live", args=[found.pk]),
    }


def _initial(found: TelemetrySource) -> dict[str, Any]:
    fields = ("name", "kind", "address", "every_s", "user", "authority", "history", "enabled")
    matchers = "\n".join(f"{label}={value}" for label, value in sorted(found.matchers.items()))
    return {name: getattr(found, name) for name in fields} | {"matchers": matchers}


def _changed(request: HttpRequest, who: User, found: TelemetrySource, form: SourceForm) -> bool:
    try:
        source_change(acting_user=who, source=found, expected=version_of(request), **form.fields_of())
    except PermissionDenied:
        raise
    except AllotmentError as error:
        show_refusal(form, error, now=partial(_now, who, found))
        return False
    messages.success(request, _("Data source %(name)s updated") % {"name": found.name})
    return True


def _now(who: User, found: TelemetrySource) -> str:
    """Return the present state of a source, for the message about a concurrent change."""
    try:
        current = source_get(viewer=who, pk=found.pk)
    except NotFound:
        return _("The data source was deleted.")
    return _("Current address: %(address)s.") % {"address": current.address}


def _result(result: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if result is None:
        return None
    numbers = {"samples": result["samples"], "measures": len(result["measures"])}
    good = _("Samples: %(samples)s. Measures: %(measures)s.") % numbers
    partial_ = result["samples"] > 0 and not result["ok"]
    return {
        "title": _("Test passed") if result["ok"] else _("Test incomplete") if partial_ else _("Test failed"),
        "text": join_sentences([result["message"], good if result["samples"] else ""]),
        "tone": "running" if result["ok"] else "waiting" if partial_ else "failed",
    }
