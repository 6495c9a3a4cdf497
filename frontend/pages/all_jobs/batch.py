"""Actions on several jobs of any workspaces, each with the viewer's permissions in its workspace."""

from __future__ import annotations

from functools import partial

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from frontend.lists.batch import answer_batch
from frontend.pages.all_jobs.page import rights_anywhere
from frontend.pages.jobs.table.job_batch import batch_acts, find_jobs
from frontend.shell.page_shell import get_viewer, login_required, set_frame


@require_POST
@login_required
def post_batch(request: HttpRequest) -> HttpResponse:
    """Ask before several jobs are changed, and change those that allow it."""
    who = get_viewer(request)
    set_frame(request, label=_("Jobs"), trail=_("Operations"))
    return answer_batch(
        request,
        acts=batch_acts(who, None, rights_anywhere(who)),
        find=partial(find_jobs, who, None),
        back=reverse("frontend:ops-jobs"),
    )
