"""The shortage of a pending job in a pool, for the form that requests quota."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from django.http import QueryDict
from django.utils.translation import gettext as _

from clusters.models import Flavor
from foundation.core.errors import NotFound, PermissionDenied
from foundation.core.numbers import read_whole
from foundation.core.quantities import Resource
from frontend.pages.quotas import form
from frontend.pages.quotas.typed_amounts import format_typed, read_typed
from frontend.texts.recommendations import OF_AMOUNTS, amount_words, find_recommendations, shorts_of
from quotas.models import Queue
from quotas.selectors.limits.blocking import find_blocking_node
from quotas.selectors.pools.flavor import find_queue_flavor
from quotas.selectors.queues.queue import queue_list
from scheduling.selectors.jobs.job import job_get
from scheduling.selectors.pending.pending import can_borrow_now
from tenants.models import Tenant, User

_LONGEST_NAME: Final = 63
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class Lack:
    """The shortage of one job in one pool, and the quota that causes it. `job` is its name.

    `unassigned` is what the workspace could assign itself, if that is not enough; empty otherwise.
    """

    job: str
    node: uuid.UUID
    flavor: Flavor
    shorts: Mapping[Resource, int]
    unassigned: str = ""


def read_lack(viewer: User, workspace: Tenant, job: str, pool: str) -> Lack | None:
    """Read what a job lacks in the pool of this name; None if it lacks nothing there, or is out of sight."""
    if not job or not workspace.is_workspace:
        return None
    try:
        found = job_get(viewer=viewer, workspace=workspace, ref=job)
    except (NotFound, PermissionDenied):
        return None
    ways = [each for each in find_recommendations(found.reason_help) if each.code in OF_AMOUNTS]
    ways.sort(key=lambda each: each.code != "RAISE_QUOTA")
    wanted = next((each for each in ways if each.flavor == pool), None)
    flavor = find_queue_flavor(found.queue_id, pool)
    shorts = shorts_of(wanted.items) if wanted else {}
    if not found.is_waiting or flavor is None or not shorts:
        return None
    return _find_lack(found.name, found.queue, flavor, shorts, borrows=can_borrow_now(found))


def read_draft_lack(viewer: User, workspace: Tenant, query: QueryDict) -> Lack | None:
    """Read what an unsubmitted job lacks, from the address to which its pre-check links.

    None for an address without it, and for a queue or pool out of sight.
    """
    if "short" not in query or not workspace.is_workspace:
        return None
    queue = next((q for q in queue_list(viewer, workspace) if q.name == query.get("queue")), None)
    flavor = find_queue_flavor(queue.pk, query.get("pool", "")) if queue else None
    shorts = _read_shorts(query.get("short", ""))
    if queue is None or flavor is None or not shorts:
        return None
    return _find_lack(
        query.get("name", "")[:_LONGEST_NAME], queue, flavor, shorts, borrows=query.get("borrows") == "1"
    )


def _read_shorts(text: str) -> dict[Resource, int]:
    known = {resource.value for resource in Resource}
    pairs = (part.partition(":") for part in text[:_LONGEST].split(","))
    amounts = {name: read_whole(amount) for name, _colon, amount in pairs if name in known}
    return {Resource(name): amount for name, amount in amounts.items() if amount}


def _find_lack(
    job: str, queue: Queue, flavor: Flavor, shorts: Mapping[Resource, int], *, borrows: bool
) -> Lack:
    blocking = find_blocking_node(queue, flavor, shorts, borrows=borrows)
    lack = Lack(job, blocking.node, flavor, shorts)
    if blocking.covered:
        return lack
    less = {
        resource: has
        for resource, has in blocking.unassigned.items()
        if has is not None and has < shorts[resource]
    }
    return replace(lack, unassigned=_(", ").join(amount_words(less)))


def fill_in(typed: form.Typed, lack: Lack) -> form.Typed:
    """Return the form with each nominal raised by what the job lacks; unlimited stays unlimited."""
    rows = [
        replace(
            row, boxes=[_raised(row.resource, row.boxes[0], lack.shorts.get(row.resource, 0)), *row.boxes[1:]]
        )
        for row in typed.rows
    ]
    return replace(typed, rows=rows)


def _raised(resource: Resource, box: form.Box, by: int) -> form.Box:
    amount = read_typed(resource, box.value)
    return box if amount is None else replace(box, value=format_typed(resource, amount + by))
