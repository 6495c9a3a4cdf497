"""Addresses of queues: the same pages exist in a workspace and on the operators' side."""

from __future__ import annotations

from django.http import HttpRequest
from django.urls import reverse

from frontend.shell import navigation
from quotas.models import Queue
from tenants.models import Tenant


def is_operations(request: HttpRequest) -> bool:
    """Return whether the requested page is on the operators' side."""
    match = request.resolver_match
    return navigation.product_of((match.view_name if match else "") or "") == navigation.OPERATIONS


def queue_page_address(request: HttpRequest, queue: Queue, part: str = "", *more: str) -> str:
    """Return the page of a queue on the side of the requested page, or a `part` of it, such as `live`."""
    side = "ops" if is_operations(request) else "workspace"
    name = f"frontend:{side}-queue-{part}" if part else f"frontend:{side}-queue"
    return reverse(name, args=[queue.workspace.slug, queue.name, *more])


def queues_address(request: HttpRequest, workspace: Tenant) -> str:
    """Return the list of queues on the side of the requested page."""
    if is_operations(request):
        return reverse("frontend:ops-queues")
    return reverse("frontend:workspace-queues", args=[workspace.slug])
