"""The tabs of a job's page: the one in the address, and the content of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import urlencode

from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from frontend.pages.jobs.addresses import job_address


class JobTab(StrEnum):
    """A tab, as the value of the parameter `tab`."""

    OVERVIEW = "overview"
    TIMELINE = "timeline"
    LOGS = "logs"
    METRICS = "metrics"
    TASKS = "tasks"
    SPEC = "spec"


_LABELS: Final[Mapping[JobTab, str | Promise]] = {
    JobTab.OVERVIEW: gettext_lazy("Overview"),
    JobTab.TIMELINE: gettext_lazy("Timeline"),
    JobTab.LOGS: gettext_lazy("Logs"),
    JobTab.METRICS: gettext_lazy("Metrics"),
    JobTab.TASKS: gettext_lazy("Tasks"),
    JobTab.SPEC: gettext_lazy("Specification"),
}


@dataclass(frozen=True, slots=True)
class TabLink:
    """One tab with its address."""

    label: str | Promise
    url: str
    current: bool


def read_tab(request: HttpRequest) -> JobTab:
    """Return the tab of an address; the overview for any other value."""
    try:
        return JobTab(request.GET.get("tab", ""))
    except ValueError:
        return JobTab.OVERVIEW


def list_tabs(workspace: str, job: object, current: JobTab) -> Sequence[TabLink]:
    """List the tabs in the order of the page."""
    return [TabLink(_LABELS[tab], tab_address(workspace, job, tab), tab == current) for tab in JobTab]


def tab_address(workspace: str, job: object, tab: JobTab) -> str:
    """Return the address of a tab of a job's page."""
    path = job_address(workspace, job)
    return path if tab == JobTab.OVERVIEW else f"{path}?{urlencode({'tab': tab.value})}"
