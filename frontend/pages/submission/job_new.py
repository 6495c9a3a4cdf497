"""Submitting a job: a form, its YAML, and a preview, side by side."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from clusters.models import BackendKind
from foundation.compute import serving
from foundation.core import clock
from foundation.core.errors import AllotmentError, Invalid, NotFound, PermissionDenied, TooLarge
from frontend.components import view_models
from frontend.pages.jobs.addresses import job_address, jobs_address
from frontend.pages.jobs.detail.copies import SubmitText, submit_texts
from frontend.pages.jobs.detail.spec_text import spec_text
from frontend.pages.jobs.pending import advice
from frontend.pages.submission import job_rail
from frontend.pages.submission.draft_estimate import find_estimate_of
from frontend.pages.submission.drafts import (
    FIRST_ROLE,
    JobDraft,
    add_lines,
    draft_of,
    draft_of_text,
    edit_draft,
    invalid_lines,
    read_draft,
    rename_job,
    unused_name,
)
from frontend.pages.submission.job_form import JobForm
from frontend.pages.submission.job_values import ROLES_MAX, FormValues
from frontend.pages.submission.sample_job import NAME, PROGRAM, sample_job
from frontend.pages.submission.startable_jobs import read_size
from frontend.pages.submission.templates import TemplateForm, show_editor
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.texts.gpu_hours import format_money
from quotas.selectors.pools.pool import WorkspacePool, pool_list
from quotas.selectors.queues.queue import queue_list
from scheduling.job_file import load_text
from scheduling.job_file import to_mapping as job_mapping
from scheduling.models import Job, JobKind, PriorityClass
from scheduling.selectors.jobs.job import job_get
from scheduling.selectors.jobs.job_tag import job_tags_lately
from scheduling.selectors.jobs.job_template import job_template_get, job_template_list
from scheduling.selectors.policies.priority import priority_class_list
from scheduling.services.jobs.job import job_submit
from scheduling.services.jobs.job_read import job_read
from telemetry.usage.hourly_cost import pool_prices
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get


@dataclass(slots=True)
class _Choices:
    """The choices of the form in this workspace."""

    queues: list[str]
    classes: list[PriorityClass]
    pools: list[WorkspacePool]
    simulated: bool


@login_required
def job_new(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the form; POST converts between form and YAML, adds a role, or submits."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    permissions.require_permission(who, Permission.JOB_SUBMIT, place)
    choices = _choices(who, place)
    if request.method != "POST":
        return _show(request, place, choices, _first(request, who, place, choices))
    draft = read_draft(request.POST)
    action = request.POST.get("do", "submit")
    if action == "save-template":
        return _save_template(request, place, choices, draft)
    if action == "copies":
        return _show_copies(request, place, choices, draft)
    if action != "submit":
        edit_draft(draft, action)
        return _show(request, place, choices, draft)
    try:
        job = _submitted(who, place, draft)
    except (NotFound, PermissionDenied):
        raise
    except AllotmentError as error:
        draft.add_error(error)
        return _show(request, place, choices, draft, status=error.status, submitted=True)
    messages.success(request, _("%(name)s submitted") % {"name": job.name})
    return redirect(job_address(place.slug, job.pk))


def _show_copies(request: HttpRequest, place: Tenant, choices: _Choices, draft: JobDraft) -> HttpResponse:
    """Show the unchanged draft, with the texts that submit it with other tools."""
    written = replace(draft)
    edit_draft(written, "to-yaml")
    if written.error is not None:
        return _show(request, place, choices, written, status=written.error.status)
    return _show(request, place, choices, draft, copies=submit_texts(request, place.slug, written.text))


def _save_template(request: HttpRequest, place: Tenant, choices: _Choices, draft: JobDraft) -> HttpResponse:
    """Open the page that creates a template, with the draft's YAML."""
    edit_draft(draft, "to-yaml")
    if draft.error is not None:
        return _show(request, place, choices, draft, status=draft.error.status)
    try:
        name = str(load_text(draft.text).get("name") or "")
    except Invalid:
        name = ""  # the page reports a missing name when the template is saved
    return show_editor(request, place, TemplateForm(initial={"name": name, "text": draft.text}))


def _submitted(who: User, place: Tenant, draft: JobDraft) -> Job:
    wrong = draft.line_errors()
    try:
        reading = job_read(acting_user=who, workspace=place, body=draft.read_body())
    except Invalid as error:
        raise (invalid_lines([*wrong, *error.errors]) if wrong else error) from None
    if wrong:
        raise invalid_lines(wrong)
    return job_submit(acting_user=who, workspace=place, spec=reading.spec)


@require_POST
@login_required
def job_new_check(request: HttpRequest, workspace: str) -> HttpResponse:
    """Return the preview of the current input; writes nothing."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    permissions.require_permission(who, Permission.JOB_SUBMIT, place)
    pools = pool_list(who, place)
    draft = read_draft(request.POST)
    wrong, estimate = draft.line_errors(), None
    try:
        body = draft.read_body()
        verdict = job_rail.preview_job(who, place, body, pools)
        estimate = find_estimate_of(who, place, body) if verdict.may_estimate else None
    except (Invalid, TooLarge) as error:
        verdict = job_rail.preview_refusal(error)
    if wrong:
        verdict = job_rail.preview_refusal(invalid_lines([*wrong, *verdict.errors]))
    if draft.tab == "form":
        verdict = job_rail.name_fields(verdict)
    else:
        verdict = replace(verdict, errors=add_lines(draft.text, verdict.errors))
    page = {"verdict": verdict, "estimate": estimate, "workspace": place}
    return render(request, "frontend/jobs/job_rail.html", page)


def _choices(who: User, place: Tenant) -> _Choices:
    queues = queue_list(who, place)
    flavors = [item.flavor for queue in queues for item in queue.queue_flavors.all()]
    return _Choices(
        queues=[queue.name for queue in queues],
        classes=priority_class_list(viewer=who, workspace=place),
        pools=pool_list(who, place),
        simulated=any(flavor.cluster.backend == BackendKind.SIMULATED for flavor in flavors),
    )


def _first(request: HttpRequest, who: User, place: Tenant, choices: _Choices) -> JobDraft:
    """Return a new job with default values, one of `?template=`, or a copy of `?from=`, changed by
    `?change=`.

    `?sample=1` requests a job that fits the workspace's quota, `?model=…&tasks=…` one of that size, and
    `?kind=` one of that type.
    """
    source = request.GET.get("from")
    if source:
        job = job_get(viewer=who, workspace=place, ref=source)
        body = advice.apply_changes(job_mapping(job), request.GET.get("change", ""))
        body |= {"name": unused_name(job.name)}
        return draft_of_text(spec_text(body))
    template = request.GET.get("template")
    if template:
        return _from_template(who, place, template)
    normal = any(one.name == "normal" for one in choices.classes)
    kind = request.GET.get("kind", "")
    main: dict[str, Any] = {
        "kind": kind if kind in JobKind.values else JobKind.BATCH.value,
        "queue": "default" if "default" in choices.queues else next(iter(choices.queues), ""),
        "priority_class": "normal" if normal else "",
        "preemptible": True,
    }
    if choices.simulated:
        main |= {"run_s": 3600, "gpu_utilisation": "0.7"}
    size = read_size(request.GET)
    if size is not None:
        program = {} if choices.simulated else PROGRAM
        asked = request.GET.get("queue")
        queue = asked if asked in choices.queues else main["queue"]
        return draft_of(FormValues(main | {"queue": queue}, [size | program]))
    sample = sample_job(who, place) if request.GET.get("sample") else None
    if sample is not None:
        program = {} if choices.simulated else PROGRAM
        return draft_of(FormValues(main | {"name": NAME, "queue": sample.queue}, [sample.role | program]))
    return draft_of(FormValues(main, [dict(FIRST_ROLE)]))


def _from_template(who: User, place: Tenant, ref: str) -> JobDraft:
    try:
        pk = uuid.UUID(ref)
    except ValueError as error:
        raise NotFound from error
    text = job_template_get(viewer=who, workspace=place, pk=pk).text
    name = load_text(text).get("name")
    return draft_of_text(rename_job(text, unused_name(name)) if isinstance(name, str) and name else text)


def _show(
    request: HttpRequest,
    place: Tenant,
    choices: _Choices,
    draft: JobDraft,
    status: int = 200,
    copies: Sequence[SubmitText] = (),
    submitted: bool = False,
) -> HttpResponse:
    set_frame(request, place)
    serving.start_process()
    form = JobForm(draft.values, queues=choices.queues, classes=choices.classes, pools=choices.pools)
    refusal = job_rail.preview_refusal(draft.error) if draft.error else None
    errors = [one for one in draft.errors if one.field or refusal is None or one.message != refusal.text]
    form.add_errors(errors)
    page = {
        "workspace": place,
        "crumbs": [view_models.Crumb(label=_("Jobs"), url=jobs_address(place.slug))],
        "form": form,
        "tab": draft.tab,
        "text": draft.text,
        "yaml_errors": add_lines(draft.text, errors) if draft.tab == "yaml" else (),
        "refusal": refusal,
        "submitted": submitted,
        "pools": _price_pools(get_viewer(request), place, choices.pools),
        "currency": settings.ALLOTMENT_CURRENCY,
        "copies": copies,
        "templates": job_template_list(viewer=get_viewer(request), workspace=place),
        "known_tags": partial(job_tags_lately, viewer=get_viewer(request), workspace=place),
        "simulated": choices.simulated,
        "may_add_role": len(form.roles) < ROLES_MAX,
    }
    return render(request, "frontend/jobs/job_new.html", page, status=status)


def _price_pools(who: User, place: Tenant, pools: Sequence[WorkspacePool]) -> list[tuple[WorkspacePool, str]]:
    """Return pools, each with its price per GPU-hour as text."""
    prices = pool_prices(who, place, [pool.flavor for pool in pools], now=clock.now())
    digits = settings.ALLOTMENT_CURRENCY_DIGITS
    return [(pool, format_money(prices.get(pool.flavor.pk), digits)) for pool in pools]
