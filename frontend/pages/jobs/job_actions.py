"""Cancel, suspend, restart and other actions on a job: each is a POST that returns to the job's page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from alerts.services.job_watch import unwatch_job, watch_job
from foundation.core.errors import Conflict, Invalid, Refused
from frontend.pages.jobs.addresses import job_address
from frontend.shell.page_shell import get_viewer, login_required, problem_of
from scheduling.job_file.parsing.tags import split_tags
from scheduling.selectors.jobs.job import job_get
from scheduling.services.jobs import job as service
from scheduling.services.jobs.idle_extension import extend_idle_job
from scheduling.services.jobs.job_exchange import exchange_jobs
from scheduling.services.jobs.job_tags import set_job_tags
from tenants.selectors.tenant import workspace_get


@require_POST
@login_required
def post_cancel(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Cancel the job."""
    return _act(request, workspace, job, service.job_cancel, _("Canceling %(name)s"))


@require_POST
@login_required
def post_suspend(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Suspend the job: it gets no resources until it is resumed."""
    return _act(request, workspace, job, service.job_suspend, _("Suspending %(name)s"))


@require_POST
@login_required
def post_resume(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Resume the job: it returns to its queue."""
    return _act(request, workspace, job, service.job_resume, _("%(name)s resumed"))


@require_POST
@login_required
def post_restart(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Run the job again from its queue."""
    return _act(request, workspace, job, service.job_restart, _("Restarting %(name)s"))


@require_POST
@login_required
def post_extend(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Postpone the announced action of the idle policy for the job."""
    return _act(request, workspace, job, extend_idle_job, _("%(name)s can stay idle longer"))


@require_POST
@login_required
def post_tags(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Replace the tags of the job by the entered ones."""
    tags = split_tags(request.POST.get("tags", ""))
    return _act(request, workspace, job, partial(set_job_tags, tags=tags), _("Tags of %(name)s updated"))


@require_POST
@login_required
def post_priority(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Change the priority class of the job."""
    change = partial(service.job_priority, priority_class=request.POST.get("priority", ""))
    return _act(request, workspace, job, change, _("Priority of %(name)s changed"))


@require_POST
@login_required
def post_watch(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Notify the reader when the job starts and when it ends."""
    return _act(request, workspace, job, watch_job, _("You'll get a message when %(name)s starts and ends"))


@require_POST
@login_required
def post_unwatch(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Stop notifying the reader about the job."""
    return _act(request, workspace, job, unwatch_job, _("Notifications about %(name)s turned off"))


@require_POST
@login_required
def post_exchange(request: HttpRequest, workspace: str, job: str) -> HttpResponse:
    """Exchange the job's place in the queue with that of another job."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    other = job_get(viewer=who, workspace=place, ref=request.POST.get("other", ""))
    change = partial(exchange_jobs, other=other)
    return _act(request, workspace, job, change, _("Place of %(name)s exchanged"))


def _act(
    request: HttpRequest, workspace: str, ref: str, change: Callable[..., object], done: str
) -> HttpResponse:
    who = get_viewer(request)
    found = job_get(viewer=who, workspace=workspace_get(viewer=who, slug=workspace), ref=ref)
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        back = job_address(workspace, found.pk)
    try:
        change(acting_user=who, job=found)
    except (Conflict, Invalid, Refused) as error:
        # The job may change while a user reads its page, so the error is shown on the page itself.
        problem = problem_of(error)
        messages.error(request, f"{problem.title}{_(': ')}{problem.detail}")
    else:
        messages.success(request, done % {"name": found.name})
    return redirect(back)
