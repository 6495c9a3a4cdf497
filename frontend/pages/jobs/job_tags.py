"""The tags of jobs as links to the jobs that have them."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlencode

from frontend.lists.conditions import PARAMETER
from frontend.lists.page_list import PageList
from frontend.pages.jobs.addresses import jobs_address


class TagLink(NamedTuple):
    """A tag, and the list of the jobs that have it."""

    name: str
    url: str


def tagged_address(workspace: str, tag: str) -> str:
    """Return the list of all jobs of a workspace that have a tag."""
    return f"{jobs_address(workspace)}?{urlencode({PARAMETER: _condition(tag)})}"


def filter_address(shown: PageList, tag: str) -> str:
    """Return the list as it is shown, narrowed to the jobs that have a tag."""
    return shown.url_with_condition(_condition(tag))


def _condition(tag: str) -> str:
    return f"tags=={tag}"
