"""The notebooks and services of a workspace: interactive jobs and jobs that serve requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from frontend.components import view_models
from frontend.lists.page_list import EmptyList, PageList, answer_list, cut_by_keys, read_list
from frontend.pages.jobs.job_facts import Rights, rights_of
from frontend.pages.jobs.table.job_batch import batch_acts
from frontend.pages.jobs.table.job_columns import NOTEBOOKS
from frontend.pages.jobs.table.job_lines import describe_jobs
from frontend.pages.jobs.table.job_list import (
    DELETED,
    GROUPS,
    JobCounts,
    accept_values,
    owner_chips,
    read_filters,
    state_chips,
)
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from scheduling.models import TERMINAL_STATES, JobKind, JobState
from scheduling.selectors.jobs.job import job_by_keys, job_query
from scheduling.selectors.jobs.job_filter import resolve_filters
from scheduling.selectors.jobs.job_tag import job_tags_lately
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get

KINDS: Final = (JobKind.NOTEBOOK, JobKind.SERVICE)
_ALL: Final = "all"
_PRESENT: Final = tuple(state for state in JobState if state not in TERMINAL_STATES)
"""The states that the address without filters shows: all that have not ended, suspended jobs included."""


@login_required
def show_notebooks(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the page, its rows alone, or the matching jobs as a file."""
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    rights = rights_of(who, place)
    set_frame(request, place)
    shown = read_list(request, NOTEBOOKS, accept_values(_ALL))
    asked_for = replace(read_filters(shown, _states(shown.query.get("state", ""))), kinds=KINDS)
    filters = resolve_filters(viewer=who, workspace=place, filters=asked_for)
    counts = JobCounts(who, place, filters)
    jobs = job_query(viewer=who, workspace=place, filters=filters)
    return answer_list(
        request,
        shown,
        jobs.order_by(*shown.total_order),
        partial(describe_jobs, who, shown),
        template="frontend/notebooks/notebooks.html",
        body="frontend/jobs/jobs_body.html",
        dialogs="frontend/jobs/job_row_dialogs.html",
        context=partial(_context, who, place, rights, shown, counts),
        cut=cut_by_keys(lambda keys: job_by_keys(viewer=who, keys=keys), counts.count_listed),
    )


def _states(asked: str) -> Sequence[JobState]:
    if asked in (_ALL, DELETED):
        return ()
    return GROUPS[asked][1] if asked in GROUPS else _PRESENT


def _context(who: User, place: Tenant, rights: Rights, shown: PageList, counts: JobCounts) -> dict[str, Any]:
    active = view_models.Chip(label=pgettext("jobs", "Active"), count=counts.count_in(_PRESENT))
    every = view_models.Chip(label=_("All"), value=_ALL, count=counts.count_in())
    return {
        "workspace": place,
        "rights": rights,
        "states": [active, every, *state_chips(counts.state_counts)],
        "whose": owner_chips(""),
        "asked": shown.query,
        "known_tags": partial(job_tags_lately, viewer=who, workspace=place),
        "acts": [] if counts.filters.deleted else batch_acts(who, place, rights),
        "batch_url": reverse("frontend:job-batch", args=[place.slug]),
        "empty_list": _empty_list(place, rights),
    }


def _empty_list(place: Tenant, rights: Rights) -> EmptyList:
    if not rights.submit:
        return EmptyList(_("No active notebooks or services"), icon="square-terminal")
    return EmptyList(
        _("No active notebooks or services"),
        _("Submit a job of type Notebook or Service."),
        url=f"{reverse('frontend:job-new', args=[place.slug])}?kind={JobKind.NOTEBOOK.value}",
        action=_("Submit notebook"),
        icon="square-terminal",
    )
