"""Pod events of a cluster as rows of a timeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.utils.translation import gettext as _

from frontend.components import view_models
from scheduling.selectors.pods.pod_events import TaskEvent


def rows_of_pod_events(events: Iterable[TaskEvent]) -> Sequence[view_models.EventRow]:
    """Return one row per event, in the cluster's own words."""
    return [_row(event) for event in events]


def _row(event: TaskEvent) -> view_models.EventRow:
    often = _("× %(count)s") % {"count": event.count} if event.count > 1 else ""
    return view_models.EventRow(
        at=event.at,
        text=event.message or event.reason,
        tag=event.reason,
        tone="failed" if event.warning else "info",
        detail=" · ".join(part for part in (event.task, often) if part),
    )
