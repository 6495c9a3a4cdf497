"""Recommendations for an unsubmitted job: buttons change the draft, more quota opens the request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from django.utils.translation import gettext as _

from frontend.components import view_models
from frontend.pages.jobs.pending import advice
from frontend.shell import navigation
from frontend.texts import reasons
from frontend.texts.recommendations import Recommendation, asks_for_quota, find_recommendations, shorts_of
from scheduling.services.jobs.job_check import Submission

CHANGE: Final = "change:"
"""The prefix of the form's action that applies recommendations to the draft."""


def list_helps(
    code: str, numbers: Mapping[str, Any], found: Iterable[Any], submission: Submission | None = None
) -> list[view_models.HelpItem]:
    """List recommendations, best first. `submission` is needed for those that request quota."""
    items = list(found)
    ways = find_recommendations(items)
    helps = [_help(one, items, submission, requests=asks_for_quota(one, ways)) for one in ways]
    if helps:
        return helps
    usual = reasons.help_sentence(code, numbers)
    return [view_models.HelpItem(title=usual, effect="")] if usual else []


def _help(
    found: Recommendation, items: list[Any], submission: Submission | None, *, requests: bool
) -> view_models.HelpItem:
    if found.code in advice.CHANGES:
        return view_models.HelpItem(
            title=found.sentence,
            effect="",
            act=CHANGE + advice.change_text(found.items[0], items),
            action=_("Apply"),
        )
    if requests and submission is not None:
        return view_models.HelpItem(
            title=found.sentence,
            effect=_("Opens a request with these amounts filled in."),
            url=_request_address(submission, found),
            action=_("Request quota"),
            new_tab=True,
        )
    return view_models.HelpItem(title=found.sentence, effect="")


def _request_address(submission: Submission, found: Recommendation) -> str:
    page = navigation.find_address("frontend:workspace-requests", workspace=submission.queue.workspace.slug)
    shorts = ",".join(f"{resource.value}:{amount}" for resource, amount in shorts_of(found.items).items())
    query = {
        "name": submission.spec.name,
        "queue": submission.queue.name,
        "pool": found.flavor,
        "short": shorts,
    }
    if submission.spec.preemptible:
        query["borrows"] = "1"
    return f"{page}?{urlencode(query)}#ask"
