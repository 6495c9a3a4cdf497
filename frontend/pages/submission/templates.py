"""Job templates of a workspace: the list, and the page that creates and edits one."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError
from frontend.components.view_models import Crumb
from frontend.lists.batch import BatchAct, BatchItem, answer_batch, is_batch
from frontend.lists.common_acts import build_delete_act
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.lists.page_list import EmptyList, answer_list, read_list
from frontend.pages.jobs.addresses import jobs_address
from frontend.pages.jobs.detail.spec_text import job_text
from frontend.pages.submission.job_form import one_break
from frontend.shell.form_actions import run_change, show_refusal, version_of
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from scheduling.models import JobTemplate
from scheduling.selectors.jobs.job import job_get
from scheduling.selectors.jobs.job_template import JOB_TEMPLATE_COLUMNS, job_template_get, job_template_list
from scheduling.services.jobs.job_template import (
    DESCRIPTION_MAX,
    job_template_change,
    job_template_create,
    job_template_delete,
)
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get


class TemplateForm(forms.Form):
    """A template; its text is checked by the service."""

    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=63,
        help_text=gettext_lazy("Lowercase letters, digits and hyphens."),
    )
    description = forms.CharField(
        label=gettext_lazy("Description"), max_length=DESCRIPTION_MAX, required=False
    )
    text = forms.CharField(
        label=gettext_lazy("Job file"),
        strip=False,
        widget=forms.Textarea(attrs={"rows": 24, "translate": "no"}),
    )

    def clean_text(self) -> str:
        """Return the text with its original line ends."""
        return one_break(self.cleaned_data["text"])


@dataclass(frozen=True, slots=True)
class TemplateLine:
    """One template in the list."""

    template: JobTemplate
    url: str
    use_url: str

    @property
    def id(self) -> uuid.UUID:
        return self.template.pk

    @property
    def title(self) -> str:
        return self.template.name


TEMPLATES: Final = ListDeclaration(
    key="templates",
    title=gettext_lazy("Job templates"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Name"), sort="name", text=lambda line: line.template.name),
        ListColumn(
            key="description",
            label=gettext_lazy("Description"),
            text=lambda line: line.template.description,
        ),
        ListColumn(
            key="saved_by",
            label=gettext_lazy("Saved by"),
            sort="saved_by",
            text=lambda line: line.template.saved_by.username if line.template.saved_by else "",
        ),
        ListColumn(
            key="saved_at",
            label=gettext_lazy("Updated"),
            sort="saved_at",
            text=lambda line: line.template.saved_at,
        ),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Name")),
        "description": FilterField(label=gettext_lazy("Description")),
        "saved_by": FilterField(label=gettext_lazy("Saved by")),
        "saved_at": FilterField(label=gettext_lazy("Updated")),
    },
    fields=JOB_TEMPLATE_COLUMNS,
    default_sort="name",
    every_s=0,
)


@login_required
def show_templates(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the templates of a workspace; POST deletes some."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    templates = job_template_list(viewer=who, workspace=place)
    may_edit = permissions.has_permission(who, Permission.JOB_SUBMIT, place)
    acts = [_delete_act(who)] if may_edit else []
    set_frame(request, place)
    if is_batch(request):
        return answer_batch(request, acts=acts, find=partial(_find, templates), back=request.path)
    listing = read_list(request, TEMPLATES)
    return answer_list(
        request,
        listing,
        listing.arrange_rows(templates),
        partial(_lines, place),
        template="frontend/jobs/templates.html",
        context=lambda: {
            "workspace": place,
            "crumbs": _crumbs(place),
            "row": "frontend/jobs/template_row.html",
            "menu": "frontend/jobs/template_menu.html",
            "acts": acts,
            "batch_url": request.path,
            "may_edit": may_edit,
            "empty_list": EmptyList(
                _("No job templates"),
                _("Editors can save a job file as a template from the job form or from a job."),
                icon="layout-template",
            ),
        },
    )


def _lines(place: Tenant, templates: Sequence[JobTemplate]) -> list[TemplateLine]:
    form = reverse("frontend:job-new", args=[place.slug])
    return [
        TemplateLine(
            found,
            reverse("frontend:job-template", args=[place.slug, found.pk]),
            f"{form}?template={found.pk}",
        )
        for found in templates
    ]


def _delete_act(who: User) -> BatchAct:
    return build_delete_act(
        _("Delete job templates"),
        lambda found: job_template_delete(acting_user=who, template=found, version=found.version),
        _("Jobs aren't affected."),
    )


def _find(templates: QuerySet[JobTemplate], ids: Collection[uuid.UUID]) -> list[BatchItem]:
    found = templates.filter(pk__in=ids)
    return [
        BatchItem(id=one.pk, name=one.name, row=one, state=one.description, version=one.version)
        for one in found
    ]


@login_required
def template_new(request: HttpRequest, workspace: str) -> HttpResponse:
    """Create a template, empty or from the job that `?from=` names."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    permissions.require_permission(who, Permission.JOB_SUBMIT, place)
    if request.method != "POST":
        source = request.GET.get("from")
        if not source:
            return show_editor(request, place, TemplateForm())
        job = job_get(viewer=who, workspace=place, ref=source)
        return show_editor(request, place, TemplateForm(initial={"name": job.name, "text": job_text(job)}))
    form = TemplateForm(request.POST)
    if form.is_valid():
        try:
            made = job_template_create(acting_user=who, workspace=place, **form.cleaned_data)
        except AllotmentError as error:
            show_refusal(form, error)
        else:
            messages.success(request, _("Job template %(name)s created") % {"name": made.name})
            return redirect("frontend:job-templates", workspace=place.slug)
    return show_editor(request, place, form, status=400)


@login_required
def show_template(request: HttpRequest, workspace: str, template: uuid.UUID) -> HttpResponse:
    """Show one template; POST saves or deletes it."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    found = job_template_get(viewer=who, workspace=place, pk=template)
    if request.method != "POST":
        shown = {"name": found.name, "description": found.description, "text": found.text}
        return show_editor(request, place, TemplateForm(initial=shown), found)
    if request.POST.get("do") == "delete":
        delete = partial(job_template_delete, acting_user=who, template=found, version=version_of(request))
        run_change(request, delete, _("Job template %(name)s deleted") % {"name": found.name})
        return redirect("frontend:job-templates", workspace=place.slug)
    form = TemplateForm(request.POST)
    if form.is_valid():
        try:
            job_template_change(
                acting_user=who, template=found, version=version_of(request), **form.cleaned_data
            )
        except AllotmentError as error:
            show_refusal(form, error, now=lambda: "")
        else:
            messages.success(request, _("Job template %(name)s updated") % {"name": found.name})
            return redirect("frontend:job-templates", workspace=place.slug)
    return show_editor(request, place, form, found, status=400)


def show_editor(
    request: HttpRequest,
    place: Tenant,
    form: TemplateForm,
    template: JobTemplate | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render the page that creates a template, or edits `template`."""
    set_frame(request, place)
    list_url = reverse("frontend:job-templates", args=[place.slug])
    page = {
        "workspace": place,
        "crumbs": [*_crumbs(place), Crumb(label=_("Job templates"), url=list_url)],
        "form": form,
        "template": template,
        "may_edit": permissions.has_permission(get_viewer(request), Permission.JOB_SUBMIT, place),
    }
    return render(request, "frontend/jobs/template.html", page, status=status)


def _crumbs(place: Tenant) -> list[Crumb]:
    return [Crumb(label=_("Jobs"), url=jobs_address(place.slug))]
