"""The jobs of a workspace: the list, with filters, reasons and actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core import clock
from foundation.web.listing import ColumnCondition
from frontend.components import view_models
from frontend.lists.page_list import EmptyList, PageList, answer_list, cut_by_keys, read_list
from frontend.pages.jobs.job_facts import Rights, rights_of
from frontend.pages.jobs.table.job_batch import batch_acts
from frontend.pages.jobs.table.job_columns import JOBS
from frontend.pages.jobs.table.job_lines import describe_jobs
from frontend.shell.page_shell import get_viewer, login_required, set_frame
from frontend.shell.time_range import RANGES, label_of_range
from quotas.models import Queue
from quotas.selectors.queues.queue import queue_list
from scheduling.models import PENDING_STATES, RUNNING_STATES, JobState
from scheduling.selectors.jobs.job import job_by_keys, job_query
from scheduling.selectors.jobs.job_filter import COLUMNS, JobFilter, resolve_filters
from scheduling.selectors.jobs.job_tag import job_tags_lately
from scheduling.selectors.jobs.row import JobStateCounts, job_state_counts
from tenants.access.permissions import Permission
from tenants.models import Tenant, User
from tenants.selectors.tenant import workspace_get

_S = JobState
GROUPS: Final[dict[str, tuple[str | Promise, tuple[JobState, ...]]]] = {
    "waiting": (gettext_lazy("Pending"), PENDING_STATES),
    "running": (gettext_lazy("Running"), RUNNING_STATES),
    "leaving": (gettext_lazy("Terminating"), (_S.EVICTING, _S.STOPPING)),
    "suspended": (gettext_lazy("Suspended"), (_S.SUSPENDED,)),
    "succeeded": (gettext_lazy("Succeeded"), (_S.SUCCEEDED,)),
    "failed": (gettext_lazy("Failed"), (_S.FAILED,)),
    "cancelled": (gettext_lazy("Canceled"), (_S.CANCELLED,)),
}
"""The chips above the list: groups of states by the user's question, instead of all eleven states."""
DELETED: Final = "deleted"
"""The chip of the jobs that were deleted."""
_RECENT: Final = {"who": "mine", "range": "7d"}
"""The filters that a member gets at first."""


@dataclass(frozen=True)
class JobCounts:
    """The numbers of jobs that match the filters, counted on demand, because a file needs none.

    None is returned for a number that was not counted.
    """

    viewer: User
    workspace: Tenant | None
    filters: JobFilter

    @cached_property
    def state_counts(self) -> JobStateCounts:
        return job_state_counts(viewer=self.viewer, workspace=self.workspace, filters=self.filters)

    def count_in(self, states: Iterable[str] = JobState) -> int | None:
        """Count the jobs in some states, by default in all."""
        return self.state_counts.count_in(states)

    def count_listed(self) -> int | None:
        """Count the jobs of the list."""
        if self.filters.deleted:
            return self.state_counts.deleted
        return self.count_in(self.filters.states or JobState)


@login_required
def job_list(request: HttpRequest, workspace: str) -> HttpResponse:
    """Show the page, its rows alone, or the matching jobs as a file.

    Without filters, a user who submitted jobs lately is redirected to those jobs.
    """
    who = get_viewer(request)
    place = workspace_get(viewer=who, slug=workspace)
    rights = rights_of(who, place)
    if not request.GET and _has_recent(who, place, rights):
        return redirect(f"{request.path}?{urlencode(_RECENT)}")
    set_frame(request, place)
    shown = read_list(request, JOBS, accept_values())
    asked = shown.query
    group = GROUPS.get(asked.get("state", ""))
    asked_for = read_filters(shown, group[1] if group else ())
    filters = resolve_filters(viewer=who, workspace=place, filters=asked_for)
    counts = JobCounts(who, place, filters)
    jobs = job_query(viewer=who, workspace=place, filters=filters)
    return answer_list(
        request,
        shown,
        jobs.order_by(*shown.total_order),
        partial(describe_jobs, who, shown),
        template="frontend/jobs/jobs.html",
        body="frontend/jobs/jobs_body.html",
        dialogs="frontend/jobs/job_row_dialogs.html",
        context=partial(_context, who, place, rights, shown, counts),
        cut=cut_by_keys(lambda keys: job_by_keys(viewer=who, keys=keys), counts.count_listed),
    )


def _has_recent(who: User, place: Tenant, rights: Rights) -> bool:
    """Return whether a member without permissions on the jobs of others submitted any lately."""
    if not rights.submit or Permission.JOB_STOP_ANY in rights.points:
        return False
    since = ColumnCondition(COLUMNS["submitted_at"], ">=", clock.now() - RANGES[_RECENT["range"]])
    own = JobFilter(mine=True, conditions=[since])
    return job_query(viewer=who, workspace=place, filters=own).exists()


def accept_values(*more: str) -> dict[str, Iterable[str]]:
    """Return the values that the parameters of a list of jobs accept; `more` are further states."""
    return {"state": [*GROUPS, DELETED, *more], "who": ["mine", "all"], "range": RANGES}


def read_filters(shown: PageList, states: Sequence[JobState]) -> JobFilter:
    """Return the filters of the address; `states` are those of the page."""
    asked = shown.query
    return JobFilter(
        states=states,
        queue=asked.get("queue", ""),
        name=asked.get("q", "").strip(),
        gpu_model=asked.get("gpu_model", ""),
        mine=asked.get("who") == "mine",
        deleted=asked.get("state") == DELETED,
        conditions=[*shown.conditions, *_since(asked)],
    )


def _since(asked: QueryDict) -> list[ColumnCondition]:
    """Return the condition for the period up to now in which jobs were submitted."""
    length = RANGES.get(asked.get("range", ""))
    return [ColumnCondition(COLUMNS["submitted_at"], ">=", clock.now() - length)] if length else []


def _context(who: User, place: Tenant, rights: Rights, shown: PageList, counts: JobCounts) -> dict[str, Any]:
    queues = queue_list(who, place) if rights.view_quota else []
    every = view_models.Chip(label=_("All"), count=counts.count_in())
    return {
        "workspace": place,
        "rights": rights,
        "states": [every, *state_chips(counts.state_counts)],
        "whose": owner_chips("all" if "who" in shown.query else ""),
        "asked": shown.query,
        "queues": [queue.name for queue in queues],
        "models": _models(queues, shown.query.get("gpu_model", "")),
        "ranges": [(key, label_of_range(key)) for key in RANGES],
        "known_tags": partial(job_tags_lately, viewer=who, workspace=place),
        "acts": [] if counts.filters.deleted else batch_acts(who, place, rights),
        "batch_url": reverse("frontend:job-batch", args=[place.slug]),
        "empty_list": _empty_list(place, rights),
    }


def _empty_list(place: Tenant, rights: Rights) -> EmptyList:
    if not rights.submit:
        return EmptyList(_("No jobs"), _("You have view access. Editors can submit jobs."), icon="play")
    return EmptyList(
        _("No jobs"),
        _("Submit a job. The form checks whether it can start before you submit."),
        url=reverse("frontend:job-new", args=[place.slug]),
        action=_("Submit job"),
        icon="play",
    )


def owner_chips(all_value: str) -> list[view_models.Chip]:
    """Return the chips for the jobs' owners; `all_value` is the value of the address for all of them."""
    return [
        view_models.Chip(label=_("All"), value=all_value),
        view_models.Chip(label=_("Mine"), value="mine"),
    ]


def _models(queues: Sequence[Queue], asked: str) -> list[str]:
    """Return the GPU models of the workspace's pools, and the one in the address."""
    models = {link.flavor.card_model for queue in queues for link in queue.queue_flavors.all()}
    return sorted((models | {asked}) - {""})


def state_chips(counts: JobStateCounts) -> list[view_models.Chip]:
    """Return the chips of states; rarely used ones are shown only if they have jobs."""
    chips = []
    for key, (label, states) in GROUPS.items():
        count = counts.count_in(states)
        if count != 0 or key not in ("leaving", "suspended", "cancelled"):
            chips.append(view_models.Chip(label=str(label), value=key, count=count))
    if counts.deleted != 0:
        chips.append(view_models.Chip(label=_("Deleted"), value=DELETED, count=counts.deleted))
    return chips
