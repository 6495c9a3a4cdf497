"""Policies: the requirements of each tenant for jobs, and the effective ones with all tenants above."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml
from django import forms
from django.contrib import messages
from django.forms import BoundField
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from django.views.decorators.http import require_POST

from foundation.core.errors import AllotmentError, Invalid
from foundation.core.numbers import read_whole
from foundation.core.sentences import join_sentences
from frontend.components import view_models
from frontend.pages.policies.policy_list import policy_address
from frontend.shell.form_actions import run_change, show_refusal, version_of
from frontend.shell.form_mistakes import list_mistakes
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts.formats import add_note
from scheduling.job_file import FIELDS, load_text
from scheduling.models import IdleAction, WorkspacePolicy
from scheduling.models.workspace_policy import IDLE_WARN_S
from scheduling.policy import EffectivePolicy, PolicyLimit
from scheduling.policy.fields import LIMITED
from scheduling.policy.stating import (
    IDLE_LEAST_S,
    IDLE_MOST_S,
    START_MOST_S,
    WARN_LEAST_S,
    WARN_MOST_S,
    PolicyStatement,
)
from scheduling.selectors.policies.workspace_policy import policy_effective, policy_own
from scheduling.services.policies.tenant_policy_effect import TenantPolicyPreview, preview_tenant_policy
from scheduling.services.policies.workspace_policy import policy_delete, policy_set
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import tenant_get, workspace_get

TOTALS: Final[dict[str, str]] = {
    "total.tasks": gettext_noop("Tasks per job"),
    "total.gpu.cards": gettext_noop("GPUs per job"),
}


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One field that can be limited: the limit of this tenant, and the effective one."""

    label: str
    name: str
    minimum: BoundField
    maximum: BoundField
    least: PolicyLimit | None
    most: PolicyLimit | None


def limit_label(name: str) -> str:
    """Return the label of a field that a policy can limit, with its unit."""
    field = FIELDS.get(name)
    if field is None:
        return _(TOTALS[name])
    unit = field.unit if field.unit in ("s", "%") else ""
    return add_note(_(field.label), unit) if unit else _(field.label)


class PolicyForm(forms.Form):
    """A whole policy; its limits are fields named `minimum.<field>` and `maximum.<field>`."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    any_image = forms.BooleanField(label=gettext_lazy("Allow all images"), required=False)
    images = forms.CharField(
        label=gettext_lazy("Allowed images"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=gettext_lazy("One pattern per line. * matches any text, for example pytorch/*"),
    )
    idle_timeout_s = forms.IntegerField(
        label=gettext_lazy("Idle timeout (seconds)"),
        required=False,
        min_value=IDLE_LEAST_S,
        max_value=IDLE_MOST_S,
        help_text=gettext_lazy("At least 300. All GPUs of a job below 3%. GPUs without metrics aren't idle."),
    )
    idle_action = forms.ChoiceField(
        label=gettext_lazy("When a job is idle too long"), choices=IdleAction.choices, required=False
    )
    idle_warn_s = forms.IntegerField(
        label=gettext_lazy("Warn the owner before (seconds)"),
        required=False,
        min_value=WARN_LEAST_S,
        max_value=WARN_MOST_S,
        help_text=gettext_lazy("At most half of the timeout. Default: 600"),
    )
    start_limit_s = forms.IntegerField(
        label=gettext_lazy("Pod start timeout (seconds)"),
        required=False,
        min_value=0,
        max_value=START_MOST_S,
        help_text=gettext_lazy("0 = no limit. Default: 600"),
    )
    defaults = forms.CharField(
        label=gettext_lazy("Defaults"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text=gettext_lazy("Partial job file (YAML). roles is a single map applied to every role."),
    )

    allowed = forms.CharField(
        label=gettext_lazy("Allowed values"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 5, "placeholder": "kind: [batch, pytorch]"}),
        help_text=gettext_lazy("YAML map of field to allowed patterns. Other fields are unrestricted."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in LIMITED:
            for side, word in (("minimum", _("Minimum")), ("maximum", _("Maximum"))):
                self.fields[f"{side}.{name}"] = forms.CharField(
                    label=f"{word}{_(': ')}{limit_label(name)}", required=False, max_length=40
                )

    def clean_allowed(self) -> Mapping[str, Any]:
        found = self._mapping("allowed")
        for name, patterns in found.items():
            if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
                raise forms.ValidationError(_("%(name)s must be a list of strings.") % {"name": name})
        return found

    def clean_defaults(self) -> Mapping[str, Any]:
        return self._mapping("defaults")

    def _mapping(self, name: str) -> Mapping[str, Any]:
        text = self.cleaned_data[name].strip()
        try:
            found = load_text(text) if text else {}
        except AllotmentError as error:
            raise forms.ValidationError(error.detail) from error
        if not isinstance(found, Mapping):
            raise forms.ValidationError(_("Must be a map of names to values."))
        return found

    def build_statement(self) -> PolicyStatement:
        """Return the input as a policy."""
        values = self.cleaned_data
        images = [line.strip() for line in values["images"].splitlines() if line.strip()]
        return PolicyStatement(
            defaults=values["defaults"],
            minimum=self._limits("minimum"),
            maximum=self._limits("maximum"),
            images=None if values["any_image"] else images,
            allowed=values["allowed"],
            idle_timeout_s=values["idle_timeout_s"],
            idle_action=values["idle_action"] or IdleAction.SUSPEND,
            idle_warn_s=IDLE_WARN_S if values["idle_warn_s"] is None else values["idle_warn_s"],
            start_limit_s=values["start_limit_s"],
        )

    def _limits(self, side: str) -> dict[str, Any]:
        typed = {name: self.cleaned_data[f"{side}.{name}"].strip() for name in LIMITED}
        return {
            name: text if (number := read_whole(text)) is None else number
            for name, text in typed.items()
            if text
        }


def _initial(policy: WorkspacePolicy) -> dict[str, Any]:
    limits = {f"minimum.{name}": value for name, value in policy.minimum.items()}
    limits |= {f"maximum.{name}": value for name, value in policy.maximum.items()}
    return {
        "version": policy.version,
        "any_image": policy.images is None,
        "images": "\n".join(policy.images or ()),
        "idle_timeout_s": policy.idle_timeout_s,
        "idle_action": policy.idle_action,
        "idle_warn_s": policy.idle_warn_s,
        "start_limit_s": policy.start_limit_s,
        "defaults": _yaml(policy.defaults),
        "allowed": _yaml(policy.allowed, flow=None),
        **limits,
    }


@login_required
def show_policy(request: HttpRequest, tenant: uuid.UUID) -> HttpResponse:
    """Show the policy of one tenant; POST replaces or removes it."""
    who = get_viewer(request)
    place = tenant_get(viewer=who, tenant_id=tenant)
    own = policy_own(viewer=who, tenant=place)
    if request.method != "POST":
        return _show(request, who, place, PolicyForm(initial=_initial(own)), own)
    if request.POST.get("do") == "remove":
        word = _("Policy of %(name)s deleted") % {"name": place.name}
        run_change(
            request, lambda: policy_delete(acting_user=who, tenant=place, expected=version_of(request)), word
        )
        return redirect(policy_address(place))
    form = PolicyForm(request.POST)
    if form.is_valid():
        statement = form.build_statement()
        try:
            if "confirmed" not in request.POST:
                preview = preview_tenant_policy(acting_user=who, tenant=place, statement=statement)
                if preview.has_jobs:
                    return _show(request, who, place, form, own, ask=preview)
            policy_set(
                acting_user=who, tenant=place, statement=statement, expected=form.cleaned_data["version"]
            )
        except AllotmentError as error:
            show_refusal(form, error)
        else:
            messages.success(request, _("Policy saved. It applies to new jobs."))
            return redirect(policy_address(place))
    return _show(request, who, place, form, own, status=400)


@require_POST
@login_required
def check_policy(request: HttpRequest, tenant: uuid.UUID) -> HttpResponse:
    """Preview the policy of the form; writes nothing."""
    who = get_viewer(request)
    place = tenant_get(viewer=who, tenant_id=tenant)
    permissions.require_permission(who, Permission.POLICY_EDIT, place)
    form = PolicyForm(request.POST)
    effect: dict[str, Any]
    if not form.is_valid():
        effect = {"refusal": join_sentences(list_mistakes(form))}
    else:
        try:
            statement = form.build_statement()
            effect = {"preview": preview_tenant_policy(acting_user=who, tenant=place, statement=statement)}
        except Invalid as error:
            effect = {"refusal": join_sentences(wrong.message for wrong in error.errors)}
    return render(request, "frontend/policies/policy_effect.html", effect)


@login_required
def workspace_policy(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the policies for jobs of a workspace, read-only."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    set_frame(request, place)
    effective = policy_effective(viewer=who, tenant=place)
    may_edit = permissions.has_permission(who, Permission.POLICY_EDIT, place)
    page = {
        "place": place,
        "effective": effective,
        "limits": [
            (limit_label(name), effective.minimum.get(name), effective.maximum.get(name))
            for name in LIMITED
            if name in effective.minimum or name in effective.maximum
        ],
        "defaults": _text(effective),
        "url": policy_address(place) if may_edit else "",
    }
    return render(request, "frontend/policies/workspace_policy.html", page)


def _show(
    request: HttpRequest,
    who: User,
    place: Tenant,
    form: PolicyForm,
    own: WorkspacePolicy,
    status: int = 200,
    ask: TenantPolicyPreview | None = None,
) -> HttpResponse:
    effective = policy_effective(viewer=who, tenant=place)
    rows = [
        PolicyRow(
            limit_label(name),
            name,
            form[f"minimum.{name}"],
            form[f"maximum.{name}"],
            effective.minimum.get(name),
            effective.maximum.get(name),
        )
        for name in LIMITED
    ]
    set_frame(request, label=_("Policies"), trail=place.name)
    page = {
        "place": place,
        "form": form,
        "rows": rows,
        "effective": effective,
        "defaults": _text(effective),
        "unconfirmed": ask,
        "stored": own.version > 0,
        "version": own.version,
        "may_edit": permissions.has_permission(who, Permission.POLICY_EDIT, place) and not place.is_archived,
        "crumbs": [view_models.Crumb(label=_("Policies"), url=reverse("frontend:ops-policies"))],
    }
    return render(request, "frontend/policies/policy.html", page, status=status)


def _text(effective: EffectivePolicy) -> str:
    return _yaml(dict(effective.defaults)).strip()


def _yaml(content: Mapping[str, Any], *, flow: bool | None = False) -> str:
    """Return the content as YAML; `flow=None` writes lists in one line."""
    if not content:
        return ""
    return yaml.safe_dump(dict(content), allow_unicode=True, sort_keys=False, default_flow_style=flow)
