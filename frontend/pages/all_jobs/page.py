"""The list of jobs of all workspaces that are below a role of the viewer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from clusters.selectors.node import cluster_list
from frontend.components import view_models
from frontend.lists.page_list import EmptyList, PageList, answer_list, cut_by_keys, read_list
from frontend.pages.jobs.job_facts import Rights
from frontend.pages.jobs.table.job_batch import batch_acts
from frontend.pages.jobs.table.job_columns import ALL_JOBS
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
from frontend.shell.time_range import RANGES, label_of_range
from quotas.selectors.queues.queues_in_sight import visible_queues
from quotas.selectors.tenants.team import team_parents
from scheduling.models import JobState
from scheduling.selectors.jobs.job import job_by_keys, job_query
from scheduling.selectors.jobs.job_filter import JobFilter, resolve_filters
from scheduling.selectors.jobs.job_sight import job_pools
from scheduling.selectors.jobs.job_tag import job_tags_lately
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User
from tenants.selectors.tenant import list_unique_names, tenants_named

_ALL: Final = "all"
_ACTIVE: Final = (*GROUPS["waiting"][1], *GROUPS["running"][1])
"""The states of the jobs that the address without filters shows."""
_CLUSTERS: Final = frozenset({Permission.CLUSTER_VIEW, Permission.CLUSTER_EDIT})


@login_required
def show_jobs(request: HttpRequest) -> HttpResponse:
    """Show the page, its rows alone, or the matching jobs as a file."""
    who = get_viewer(request)
    shown = read_list(request, ALL_JOBS, accept_values(_ALL))
    filters = resolve_filters(viewer=who, workspace=None, filters=_filters(shown))
    jobs = job_query(viewer=who, filters=filters)
    counts = JobCounts(who, None, filters)
    set_frame(request, label=_("Jobs"), trail=_("Operations"))
    return answer_list(
        request,
        shown,
        jobs.order_by(*shown.total_order),
        partial(describe_jobs, who, shown),
        template="frontend/jobs/all_jobs.html",
        body="frontend/jobs/jobs_body.html",
        dialogs="frontend/jobs/job_row_dialogs.html",
        context=partial(_context, who, shown, counts),
        cut=cut_by_keys(lambda keys: job_by_keys(viewer=who, keys=keys), counts.count_listed),
    )


def _filters(shown: PageList) -> JobFilter:
    asked = shown.query
    return replace(
        read_filters(shown, _states(asked.get("state", ""))),
        queue="",  # queues are a field of the filter builder
        tenant=asked.get("tenant", "").strip(),
        cluster=asked.get("cluster", ""),
        flavor=asked.get("pool", ""),
    )


def _states(asked: str) -> Sequence[JobState]:
    if asked in (_ALL, DELETED):
        return ()
    return GROUPS[asked][1] if asked in GROUPS else _ACTIVE


def _context(who: User, shown: PageList, counts: JobCounts) -> dict[str, Any]:
    pools = job_pools(viewer=who)
    active = view_models.Chip(label=pgettext("jobs", "Active"), count=counts.count_in(_ACTIVE))
    every = view_models.Chip(label=_("All"), value=_ALL, count=counts.count_in())
    return {
        "states": [active, every, *state_chips(counts.state_counts)],
        "whose": owner_chips(""),
        "asked": shown.query,
        "tenant": _name_tenant(who, shown.query.get("tenant", "").strip()),
        "clusters": _names(shown, "cluster", [pool.cluster.name for pool in pools]),
        "pools": _names(shown, "pool", [pool.name for pool in pools]),
        "models": _names(shown, "gpu_model", [pool.card_model for pool in pools]),
        "ranges": [(key, label_of_range(key)) for key in RANGES],
        "known_tags": partial(job_tags_lately, viewer=who, workspace=None),
        "acts": [] if counts.filters.deleted else batch_acts(who, None, rights_anywhere(who)),
        "batch_url": reverse("frontend:ops-jobs-batch"),
        "empty_list": _empty_list(who, shown, counts),
    }


def _name_tenant(who: User, text: str) -> str:
    """Return the unique name of the tenant that the address names by its ID or name; the text itself if the
    name is not unique.
    """
    found = tenants_named(viewer=who, text=text) if text else []
    names = list_unique_names(viewer=who, tenants=found) if len(found) == 1 else ()
    return next(iter(names), text)


def _names(shown: PageList, parameter: str, names: Sequence[str]) -> list[str]:
    """Return the names to choose from, including the one in the address."""
    return sorted({*names, shown.query.get(parameter, "")} - {""})


def _empty_list(who: User, shown: PageList, counts: JobCounts) -> EmptyList:
    if counts.count_in() == 0:
        return _no_jobs(who)
    return EmptyList(
        _("No pending or running jobs"), url=shown.all_url, action=_("Show all jobs"), icon="play"
    )


def _no_jobs(who: User) -> EmptyList:
    """Return the next step towards a first job, if the user can take it."""
    if permissions.permissions_on(who, None) >= _CLUSTERS and not cluster_list(viewer=who).exists():
        hint = _("Jobs run on a cluster: Kubernetes, or a simulated one to try Allotment.")
        url = reverse("frontend:ops-cluster-new")
        return EmptyList(_("No jobs yet"), hint, url=url, action=_("Add cluster"), icon="server")
    if not visible_queues(who).exists() and team_parents(who):
        hint = _("Create a team: a workspace with members, quota and a queue. Its members submit jobs.")
        url = reverse("frontend:ops-team-new")
        return EmptyList(_("No jobs yet"), hint, url=url, action=_("New team"), icon="play")
    hint = _("Jobs appear here when members of a workspace submit them.")
    url = reverse("frontend:ops-tenants")
    return EmptyList(_("No jobs yet"), hint, url=url, action=_("View tenants"), icon="play")


def rights_anywhere(who: User) -> Rights:
    """Return the permissions of the viewer in any workspace; each job is checked again in its own."""
    return Rights(who, permissions.permissions_anywhere(who))
