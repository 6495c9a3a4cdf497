"""The state of a requested estimate, as the panels of drafts and of changes show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise

from frontend.texts.estimates import describe_progress
from scheduling.models import StartEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatePanel:
    """The state of an estimate: with `live_url` it is not done; else `message` says why it has no result."""

    key: str = ""
    live_url: str = ""
    percent: int = 0
    state: str = ""
    message: str | Promise = ""


def describe_open_estimate(row: StartEstimate, address: str) -> dict[str, Any]:
    """Return the fields of the panel of an estimate that is not done; `address` fetches it by its id."""
    return {
        "key": f"estimate-{row.pk}",
        "live_url": f"{address}?of={row.pk}",
        "percent": int(row.part_done * 100),
        "state": describe_progress(row),
    }
