"""The console's places, as data.

A page belongs to a product (the workspace's side or the operators' side). The side bar lists that
product's groups; an entry whose address does not exist in this installation is left out, so the
list below is the only thing to extend when a page is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.urls import NoReverseMatch, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

WORKSPACE = "workspace"
OPERATIONS = "operations"


@dataclass(frozen=True)
class Entry:
    """A page in the side bar. `covers` names the pages that light this entry up as well.

    `operator`: for those alone who may look at clusters.
    """

    key: str
    label: str | Promise
    icon: str
    url_name: str
    covers: tuple[str, ...] = ()
    operator: bool = False


@dataclass(frozen=True)
class Group:
    """Entries under one heading; the first group of a product needs none."""

    label: str | Promise
    entries: tuple[Entry, ...]


GROUPS: dict[str, tuple[Group, ...]] = {
    WORKSPACE: (
        Group(
            "",
            (
                Entry("overview", _("Overview"), "layout-dashboard", "frontend:workspace-overview"),
                Entry(
                    "jobs",
                    _("Jobs"),
                    "play",
                    "frontend:job-list",
                    covers=("frontend:job-new", "frontend:job-detail"),
                ),
                Entry("quota", _("Quota"), "layers", "frontend:workspace-quota"),
                Entry("requests", _("Quota requests"), "inbox", "frontend:workspace-requests"),
                Entry("usage", _("Usage"), "chart-column", "frontend:workspace-usage"),
                Entry("limits", _("Budgets and user limits"), "gauge", "frontend:workspace-limits"),
                Entry(
                    "alerts",
                    _("Alerts"),
                    "bell",
                    "frontend:workspace-alerts",
                    covers=(
                        "frontend:workspace-alert-rules",
                        "frontend:workspace-alert-channels",
                        "frontend:workspace-silences",
                    ),
                ),
                Entry("policy", _("Policy"), "scale", "frontend:workspace-policy"),
            ),
        ),
        Group(
            _("Access"),
            (
                Entry("members", _("Members"), "users", "frontend:workspace-members"),
                Entry("keys", _("Access keys"), "key-round", "frontend:workspace-keys"),
                Entry("audit", _("Audit log"), "scroll-text", "frontend:workspace-audit"),
            ),
        ),
    ),
    OPERATIONS: (
        Group(
            "",
            (
                Entry("overview", _("Overview"), "layout-dashboard", "frontend:ops-overview", operator=True),
                Entry(
                    "quotas",
                    _("Quotas"),
                    "layers",
                    "frontend:ops-quotas",
                    covers=("frontend:ops-quota-save", "frontend:ops-quota-file"),
                ),
                Entry(
                    "requests",
                    _("Quota requests"),
                    "inbox",
                    "frontend:ops-requests",
                    covers=("frontend:ops-request",),
                ),
                Entry("loans", _("Temporary quota"), "repeat", "frontend:ops-loans"),
                Entry("budgets", _("Budgets"), "gauge", "frontend:ops-budgets"),
                Entry("reports", _("Usage reports"), "chart-column", "frontend:ops-reports"),
                Entry("prices", _("Prices"), "tag", "frontend:ops-prices", operator=True),
                Entry(
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
                Entry(
                    "nodes",
                    _("Nodes"),
                    "server",
                    "frontend:ops-nodes",
                    covers=("frontend:ops-node",),
                    operator=True,
                ),
                Entry(
                    "sources",
                    _("Data sources"),
                    "radio-tower",
                    "frontend:ops-sources",
                    covers=("frontend:ops-source",),
                    operator=True,
                ),
                Entry(
                    "tenants",
                    _("Tenants"),
                    "network",
                    "frontend:ops-tenants",
                    covers=(
                        "frontend:ops-tenant",
                        "frontend:ops-tenant-requests",
                        "frontend:ops-tenant-roles",
                    ),
                ),
            ),
        ),
        Group(
            _("Scheduling settings"),
            (
                Entry(
                    "policies",
                    _("Policies"),
                    "scale",
                    "frontend:ops-policies",
                    covers=("frontend:ops-policy",),
                ),
                Entry("priorities", _("Priorities"), "arrow-up-narrow-wide", "frontend:ops-priorities"),
                Entry("queues", _("Queues"), "list", "frontend:ops-queues", covers=("frontend:ops-queue",)),
                Entry("cells", _("Scheduling domains"), "boxes", "frontend:ops-cells", operator=True),
            ),
        ),
        Group(
            _("Access"),
            (
                Entry(
                    "groups",
                    _("Groups"),
                    "users",
                    "frontend:ops-groups",
                    covers=("frontend:ops-group",),
                    operator=True,
                ),
                Entry("roles", _("Roles"), "shield", "frontend:ops-roles", operator=True),
                Entry("audit", _("Audit log"), "scroll-text", "frontend:ops-audit", operator=True),
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
class Section:
    """A group resolved for this request."""

    label: str
    links: tuple[Link, ...]


def product_of(view_name: str) -> str:
    """Which product a page belongs to."""
    return OPERATIONS if view_name.startswith("frontend:ops-") else WORKSPACE


def sections(
    view_name: str, workspace: str, counts: Mapping[str, int], *, operator: bool = True
) -> tuple[Section, ...]:
    """The side bar of the page `view_name`; `counts` maps entry keys to the work they hold."""
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
            if (operator or not entry.operator) and (url := address(entry.url_name, **arguments))
        )
        if links:
            found.append(Section(str(group.label), links))
    return tuple(found)


def address(url_name: str, **arguments: str) -> str:
    """The address of a page, or nothing where the page or what it needs does not exist."""
    try:
        return reverse(url_name, kwargs=arguments or None)
    except NoReverseMatch:
        return ""


def _is_current(entry: Entry, view_name: str) -> bool:
    return view_name == entry.url_name or view_name in entry.covers
