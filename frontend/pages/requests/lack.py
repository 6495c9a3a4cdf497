"""The shortage of a pending job in a pool, for the form that requests quota."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from django.utils.translation import gettext as _

from clusters.models import Flavor
from foundation.core.errors import NotFound, PermissionDenied
from foundation.core.quantities import Resource
from frontend.pages.quotas import form
from frontend.texts.recommendations import amount_words, find_recommendations, shorts_of
from quotas.selectors.limits.blocking import find_blocking_node
from quotas.selectors.pools.flavor import find_queue_flavor
from scheduling.models import Job
from scheduling.selectors.jobs.job import job_get
from scheduling.selectors.pending.pending import can_borrow_now
from tenants.models import Tenant, User


@dataclass(frozen=True, slots=True)
class Lack:
    """The shortage of one job in one pool, and the quota that causes it.

    `unassigned` is what the workspace could give by itself, where that is not enough; empty otherwise.
    """

    job: Job
    node: uuid.UUID
    flavor: Flavor
    shorts: Mapping[Resource, int]
    unassigned: str = ""


def read_lack(viewer: User, workspace: Tenant, job: str, pool: str) -> Lack | None:
    """Read what a job lacks of the pool of this name; None where it lacks nothing there, or is not seen."""
    if not job or not workspace.is_workspace:
        return None
    try:
        found = job_get(viewer=viewer, workspace=workspace, ref=job)
    except (NotFound, PermissionDenied):
        return None
    raises = [each for each in find_recommendations(found.reason_help) if each.code == "RAISE_QUOTA"]
    wanted = next((each for each in raises if each.flavor == pool), None)
    flavor = find_queue_flavor(found.queue_id, pool)
    shorts = shorts_of(wanted.items) if wanted else {}
    if not found.is_waiting or flavor is None or not shorts:
        return None
    blocking = find_blocking_node(found.queue, flavor, shorts, borrows=can_borrow_now(found))
    lack = Lack(found, blocking.node, flavor, shorts)
    if blocking.covered:
        return lack
    less = {
        resource: has
        for resource, has in blocking.unassigned.items()
        if has is not None and has < shorts[resource]
    }
    return replace(lack, unassigned=_(", ").join(amount_words(less)))


def fill_in(typed: form.Typed, lack: Lack) -> form.Typed:
    """The form with each nominal higher by what the job lacks; unlimited stays as it is."""
    values = {f"{resource.value}.nominal": short for resource, short in lack.shorts.items()}
    rows = [
        replace(row, boxes=[_raised(box, values.get(box.name, 0)) for box in row.boxes]) for row in typed.rows
    ]
    return replace(typed, rows=rows)


def _raised(box: form.Box, by: int) -> form.Box:
    return replace(box, value=str(int(box.value) + by)) if by and box.value.isdecimal() else box
