"""The pages of the console, as data.

A page belongs to a product (the workspace's side or the operators' side). The side bar lists that product's
groups; an entry whose address does not exist in this installation is left out, so a new page only has to be
added to the list below.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from django.urls import NoReverseMatch, get_script_prefix, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from tenants.access.permissions import Permission

WORKSPACE = "workspace"
OPERATIONS = "operations"


@dataclass(frozen=True)
class NavigationEntry:
    """A page in the side bar. `covers` names the other pages for which this entry is highlighted.

    `operator`: only for users who may view clusters; `jobs_above`: for users who see jobs by a role above
    workspaces; `needs`: the permissions without which the page isn't shown; `needs_anywhere`: permissions
    that are enough on any tenant.
    """

    key: str
    label: str | Promise
    icon: str
    url_name: str
    covers: tuple[str, ...] = ()
    operator: bool = False
    jobs_above: bool = False
    needs: tuple[Permission, ...] = ()
    needs_anywhere: tuple[Permission, ...] = ()


@dataclass(frozen=True)
class NavigationGroup:
    """Entries under one heading; the first group of a product needs none."""

    label: str | Promise
    entries: tuple[NavigationEntry, ...]


GROUPS: dict[str, tuple[NavigationGroup, ...]] = {
    WORKSPACE: (
        NavigationGroup(
            "",
            (
                NavigationEntry(
                    "overview",
                    _("Overview"),
                    "layout-dashboard",
                    "frontend:workspace-overview",
                    needs=(Permission.JOB_VIEW,),
                ),
                NavigationEntry(
                    "jobs",
                    _("Jobs"),
                    "play",
                    "frontend:job-list",
                    covers=(
                        "frontend:job-new",
                        "frontend:job-detail",
                        "frontend:job-templates",
                        "frontend:job-template",
                        "frontend:job-template-new",
                    ),
                    needs=(Permission.JOB_VIEW,),
                ),
                NavigationEntry(
                    "notebooks",
                    _("Notebooks"),
                    "square-terminal",
                    "frontend:notebook-list",
                    needs=(Permission.JOB_VIEW,),
                ),
                NavigationEntry(
                    "queues",
                    _("Queues"),
                    "list",
                    "frontend:workspace-queues",
                    covers=("frontend:workspace-queue",),
                    needs=(Permission.QUOTA_VIEW,),
                ),
                NavigationEntry(
                    "quota", _("Quota"), "layers", "frontend:workspace-quota", needs=(Permission.QUOTA_VIEW,)
                ),
                NavigationEntry(
                    "requests",
                    _("Quota requests"),
                    "inbox",
                    "frontend:workspace-requests",
                    needs=(Permission.QUOTA_VIEW,),
                ),
                NavigationEntry(
                    "usage",
                    _("Usage"),
                    "chart-column",
                    "frontend:workspace-usage",
                    needs=(Permission.JOB_VIEW,),
                ),
                NavigationEntry(
                    "limits",
                    _("Budgets and user limits"),
                    "gauge",
                    "frontend:workspace-limits",
                    needs=(Permission.QUOTA_VIEW,),
                ),
                NavigationEntry(
                    "alerts",
                    _("Alerts"),
                    "bell",
                    "frontend:workspace-alerts",
                    covers=(
                        "frontend:workspace-alert-rules",
                        "frontend:workspace-alert-channels",
                        "frontend:workspace-silences",
                    ),
                    needs=(Permission.JOB_VIEW,),
                ),
                NavigationEntry("policy", _("Policy"), "scale", "frontend:workspace-policy"),
            ),
        ),
        NavigationGroup(
            _("Access"),
            (
                NavigationEntry(
                    "members",
                    _("Members"),
                    "users",
                    "frontend:workspace-members",
                    covers=("frontend:workspace-permissions",),
                ),
                NavigationEntry(
                    "keys",
                    _("Access keys"),
                    "key-round",
                    "frontend:workspace-keys",
                    covers=("frontend:workspace-service-accounts",),
                ),
                NavigationEntry(
                    "audit",
                    _("Audit log"),
                    "scroll-text",
                    "frontend:workspace-audit",
                    needs=(Permission.AUDIT_VIEW,),
                ),
            ),
        ),
    ),
    OPERATIONS: (
        NavigationGroup(
            "",
            (
                NavigationEntry(
                    "overview", _("Overview"), "layout-dashboard", "frontend:ops-overview", operator=True
                ),
                NavigationEntry("jobs", _("Jobs"), "play", "frontend:ops-jobs", jobs_above=True),
                NavigationEntry(
                    "quotas",
                    _("Quotas"),
                    "layers",
                    "frontend:ops-quotas",
                    covers=("frontend:ops-quota-save", "frontend:ops-quota-file"),
                    needs_anywhere=(Permission.QUOTA_VIEW,),
                ),
                NavigationEntry(
                    "quota-tree",
                    _("Quota tree"),
                    "list-tree",
                    "frontend:ops-quota-tree",
                    covers=("frontend:ops-quota-charts",),
                ),
                NavigationEntry(
                    "requests",
                    _("Quota requests"),
                    "inbox",
                    "frontend:ops-requests",
                    covers=("frontend:ops-request",),
                ),
                NavigationEntry("loans", _("Temporary quota"), "repeat", "frontend:ops-loans"),
                NavigationEntry("budgets", _("Budgets"), "gauge", "frontend:ops-budgets"),
                NavigationEntry("reports", _("Usage reports"), "chart-column", "frontend:ops-reports"),
                NavigationEntry("prices", _("Prices"), "tag", "frontend:ops-prices", operator=True),
                NavigationEntry(
                    "alerts",
                    _("Alerts"),
                    "bell",
                    "frontend:ops-alerts",
                    covers=(
                        "frontend:ops-alert-rules",
                        "frontend:ops-alert-channels",
                        "frontend:ops-silences",
                    ),
                    operator=True,
                ),
                NavigationEntry(
                    "clusters",
                    _("Clusters"),
                    "cloud",
                    "frontend:ops-clusters",
                    covers=("frontend:ops-cluster", "frontend:ops-cluster-new"),
                    operator=True,
                ),
                NavigationEntry(
                    "pools",
                    _("Pools"),
                    "layers-2",
                    "frontend:ops-flavors",
                    covers=("frontend:ops-flavor",),
                    operator=True,
                ),
                NavigationEntry(
                    "nodes",
                    _("Nodes"),
                    "server",
                    "frontend:ops-nodes",
                    covers=("frontend:ops-node",),
                    operator=True,
                ),
                NavigationEntry(
                    "gpus",
                    pgettext_lazy("page", "GPUs"),
                    "cpu",
                    "frontend:ops-gpus",
                    covers=("frontend:ops-gpu",),
                    operator=True,
                ),
                NavigationEntry(
                    "efficiency", _("Efficiency"), "activity", "frontend:ops-efficiency", operator=True
                ),
                NavigationEntry(
                    "sources",
                    _("Data sources"),
                    "radio-tower",
                    "frontend:ops-sources",
                    covers=("frontend:ops-source",),
                    operator=True,
                ),
                NavigationEntry(
                    "tenants",
                    _("Tenants"),
                    "network",
                    "frontend:ops-tenants",
                    covers=(
                        "frontend:ops-tenant",
                        "frontend:ops-tenant-requests",
                        "frontend:ops-tenant-roles",
                        "frontend:ops-tenant-members",
                        "frontend:ops-tenant-permissions",
                    ),
                ),
            ),
        ),
        NavigationGroup(
            _("Scheduling settings"),
            (
                NavigationEntry(
                    "policies",
                    _("Policies"),
                    "scale",
                    "frontend:ops-policies",
                    covers=("frontend:ops-policy",),
                ),
                NavigationEntry(
                    "priorities",
                    _("Priorities"),
                    "arrow-up-narrow-wide",
                    "frontend:ops-priorities",
                    covers=("frontend:ops-priority-grants",),
                ),
                NavigationEntry(
                    "queues", _("Queues"), "list", "frontend:ops-queues", covers=("frontend:ops-queue",)
                ),
                NavigationEntry(
                    "cells", _("Scheduling domains"), "boxes", "frontend:ops-cells", operator=True
                ),
                NavigationEntry(
                    "replays",
                    _("Policy replays"),
                    "history",
                    "frontend:ops-replays",
                    covers=("frontend:ops-replay", "frontend:ops-replay-new"),
                    operator=True,
                ),
            ),
        ),
        NavigationGroup(
            _("Access"),
            (
                NavigationEntry(
                    "users",
                    _("Users"),
                    "user",
                    "frontend:ops-users",
                    covers=("frontend:ops-user",),
                    needs=(Permission.MEMBER_EDIT,),
                ),
                NavigationEntry(
                    "groups",
                    _("Groups"),
                    "users",
                    "frontend:ops-groups",
                    covers=("frontend:ops-group",),
                    needs=(Permission.MEMBER_EDIT,),
                ),
                NavigationEntry(
                    "roles",
                    _("Roles"),
                    "shield",
                    "frontend:ops-roles",
                    needs=(Permission.MEMBER_EDIT,),
                ),
                NavigationEntry(
                    "audit",
                    _("Audit log"),
                    "scroll-text",
                    "frontend:ops-audit",
                    needs=(Permission.AUDIT_VIEW,),
                ),
                NavigationEntry("system", _("System"), "heart-pulse", "frontend:ops-system", operator=True),
            ),
        ),
    ),
}


@dataclass(frozen=True)
class Link:
    """An entry resolved for this request."""

    key: str
    label: str
    icon: str
    url: str
    current: bool
    count: int | None


@dataclass(frozen=True)
class NavigationSection:
    """A group resolved for this request."""

    label: str
    links: tuple[Link, ...]


def product_of(view_name: str) -> str:
    """Return the product that a page belongs to."""
    return OPERATIONS if view_name.startswith("frontend:ops-") else WORKSPACE


def navigation_sections(
    view_name: str,
    workspace: str,
    counts: Mapping[str, int],
    *,
    operator: bool = True,
    jobs_above: bool = True,
    allowed: Collection[Permission] = frozenset(Permission),
    anywhere: Collection[Permission] = frozenset(Permission),
) -> tuple[NavigationSection, ...]:
    """Return the side bar of the page `view_name`; `counts` has the numbers of open items by entry key."""
    product = product_of(view_name)
    arguments = {"workspace": workspace} if product == WORKSPACE else {}
    found = []
    for group in GROUPS[product]:
        links = tuple(
            Link(
                entry.key,
                str(entry.label),
                entry.icon,
                url,
                _is_current(entry, view_name),
                counts.get(entry.key),
            )
            for entry in group.entries
            if (operator or not entry.operator)
            and (jobs_above or not entry.jobs_above)
            and all(permission in allowed for permission in entry.needs)
            and all(permission in anywhere for permission in entry.needs_anywhere)
            and (url := find_address(entry.url_name, **arguments))
        )
        if links:
            found.append(NavigationSection(str(group.label), links))
    return tuple(found)


def first_address(workspace: str, allowed: Collection[Permission]) -> str:
    """Return the address of the first page of a workspace that these permissions allow."""
    sections = navigation_sections("", workspace, {}, allowed=allowed)
    return sections[0].links[0].url


def find_address(url_name: str, **arguments: str) -> str:
    """Return the address of a page, or an empty text if the page or a required argument does not exist."""
    return _find_address(get_script_prefix(), url_name, tuple(arguments.items()))


@lru_cache(maxsize=1000)
def _find_address(_prefix: str, url_name: str, arguments: tuple[tuple[str, str], ...]) -> str:
    """Resolve an address once: each page has about a hundred in its side bar. `reverse` adds the prefix."""
    try:
        return reverse(url_name, kwargs=dict(arguments) or None)
    except NoReverseMatch:
        return ""


def _is_current(entry: NavigationEntry, view_name: str) -> bool:
    return view_name == entry.url_name or view_name in entry.covers
