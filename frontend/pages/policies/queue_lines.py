"""The lines of the lists of queues."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.http import HttpRequest
from django.utils.translation import gettext as _

from foundation.core import clock
from frontend.pages.policies.queue_address import queue_page_address
from frontend.pages.policies.queue_columns import QueuePolicyLine
from frontend.pages.policies.queue_settings_form import PRESETS, STOPS
from frontend.texts.queue_rules import STRATEGIES
from quotas.models import Queue
from quotas.selectors.queues.queue_flavors import queue_flavor_names
from quotas.services.queues.queue_settings import preset_of
from scheduling.selectors.jobs.row import QueueWork, queues_work
from tenants.models import User


def describe_queues(request: HttpRequest, who: User, queues: Sequence[Queue]) -> list[QueuePolicyLine]:
    """Return the lines of queues; their jobs are counted where the viewer may see them."""
    now = clock.now()
    work = queues_work(viewer=who, queues=queues, failed_since=now - timedelta(hours=24))
    return [_line(queue, queue_page_address(request, queue), work.get(queue.pk), now) for queue in queues]


def _line(queue: Queue, url: str, work: QueueWork | None, now: datetime) -> QueuePolicyLine:
    found = preset_of(queue)
    word, tone = STOPS[queue.stop_policy]
    oldest = work.oldest_waiting_at if work else None
    return QueuePolicyLine(
        queue=queue,
        url=url,
        preset=str(PRESETS[found][0]) if found else _("Custom"),
        stop=str(word),
        tone=tone,
        strategy=str(dict(STRATEGIES)[queue.strategy]),
        pools=queue_flavor_names(queue),
        cohort=queue.workspace.parent.name if queue.workspace.parent else "",
        work=work,
        oldest_wait=now - oldest if oldest else None,
    )
