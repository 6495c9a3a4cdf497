"""The context of every page: products, side bar, switcher, user, language.

Views set their location with `set_place`; the context processor turns it and the request's address into a
`Console`. It runs no queries and works for anonymous visitors and error pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import get_language, get_language_info

from foundation.models.branding import read_branding
from frontend.shell import navigation
from frontend.shell.bell import UnreadBell
from frontend.shell.outages import Outages
from frontend.texts import formats
from tenants.access.permissions import Permission

_ATTRIBUTE = "console_place"


@dataclass(frozen=True, kw_only=True)
class WorkspaceChoice:
    """One entry of the switcher on top of the side bar: a workspace or a cluster."""

    label: str
    url: str
    note: str = ""
    current: bool = False


@dataclass(frozen=True, kw_only=True)
class PageContext:
    """The location of the visitor. `workspace` is the slug, `trail` its folders (`Research / Language`).

    `more_choices`: there are more workspaces than `choices`; these are found by name. `operations_url`: the
    first page of the operators' side, empty for a user without a page there; `operations_allowed`: the user
    may view clusters; `jobs_above_allowed`: sees jobs by a role above workspaces; `bell`: the visitor's
    unread messages; `outages`: the clusters that do not respond, among those of the page; `allowed`: the
    permissions on the workspace, or on the platform on a page of the operators' side; `allowed_anywhere`:
    those on any tenant or on the platform.
    """

    workspace: str = ""
    label: str = ""
    trail: str = ""
    choices: Sequence[WorkspaceChoice] = ()
    more_choices: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    operations_url: str = ""
    operations_allowed: bool = False
    jobs_above_allowed: bool = False
    outages: Outages | None = None
    bell: UnreadBell | None = None
    allowed: frozenset[Permission] = frozenset()
    allowed_anywhere: frozenset[Permission] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Console:
    """The frame of one page."""

    product: str
    place: PageContext
    sections: Sequence[navigation.NavigationSection]
    workspace_url: str
    operations_url: str
    search_url: str
    language: str
    languages: Sequence[tuple[str, str]]
    unit_words: Mapping[str, str]


def set_place(request: HttpRequest, value: PageContext) -> None:
    """Set the location of the visitor for the frame; called by views before they render."""
    setattr(request, _ATTRIBUTE, value)


def console_context(request: HttpRequest) -> dict[str, Any]:
    """Return `console`, and `branding` for pages that show it; the context processor of the frame."""
    match = getattr(request, "resolver_match", None)
    view_name = (match.view_name if match else "") or ""
    where: PageContext = getattr(request, _ATTRIBUTE, None) or PageContext()
    slug = where.workspace or str((match.kwargs if match else {}).get("workspace", ""))
    workspace_url = navigation.find_address("frontend:workspace", workspace=slug) if slug else ""
    return {
        "branding": read_branding,
        "console": Console(
            product=navigation.product_of(view_name),
            place=where,
            sections=navigation.navigation_sections(
                view_name,
                slug,
                where.counts,
                operator=where.operations_allowed,
                jobs_above=where.jobs_above_allowed,
                allowed=where.allowed,
                anywhere=where.allowed_anywhere,
            ),
            workspace_url=workspace_url or navigation.find_address("frontend:home"),
            operations_url=where.operations_url,
            search_url=navigation.find_address("frontend:search"),
            language=get_language() or settings.LANGUAGE_CODE,
            languages=[(code, get_language_info(code)["name_local"]) for code, _name in settings.LANGUAGES],
            unit_words=formats.unit_words(),
        ),
    }
