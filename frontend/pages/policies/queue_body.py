"""The part of a queue's page that is refreshed: its timeline, its jobs and its quota."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest

from foundation.sql import row_scope
from frontend.pages.policies.queue_address import queue_page_address
from frontend.pages.policies.queue_jobs import ADMITTED_PAGE, PENDING_PAGE, describe_jobs
from frontend.pages.policies.queue_quota import describe_quota
from frontend.pages.policies.queue_timeline import describe_timeline
from quotas.models import Queue
from tenants.models import User


@row_scope.read_transaction()
def body_context(request: HttpRequest, viewer: User, queue: Queue) -> dict[str, Any]:
    """Return the refreshed part of a queue's page; jobs only for a viewer who may see them."""
    names = (PENDING_PAGE, ADMITTED_PAGE)
    pages = {name: request.GET[name] for name in names if request.GET.get(name)}
    timeline = describe_timeline(viewer, queue)
    query = f"?{urlencode(pages)}" if pages else ""
    return {
        "timeline": timeline,
        "timeline_groups": (timeline.running, timeline.pending) if timeline else (),
        "body_url": queue_page_address(request, queue, "live") + query,
        "quota_lines": describe_quota(viewer, queue),
        **(describe_jobs(viewer, queue, pages) if timeline else {}),
    }
