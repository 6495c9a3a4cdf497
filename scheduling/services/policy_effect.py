"""Previews the effect of a change of scheduling policy on jobs. Writes nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

from clusters.models import Cell, Flavor, Sharing
from foundation.core.actor import Actor
from quotas.hooks.job_effects import JobsPreview
from quotas.models import Queue
from quotas.services.queues.queue_preset import Preset
from quotas.services.queues.queue_settings import queue_check
from quotas.services.quota_preview import VisibleJobs, name_visible
from scheduling import engine
from scheduling.services.quota_effect import compare_cycles
from scheduling.snapshots.tree import engine_queue
from tenants.access import permissions
from tenants.access.permissions import Permission

_NONE = VisibleJobs((), 0)


@dataclass(frozen=True, slots=True)
class PolicyPreview:
    """The difference that the change makes to the next cycle, as in `JobsPreview`; names only visible jobs.

    `changes`: the new settings differ from the current ones.
    """

    changes: bool
    reclaimed: VisibleJobs = _NONE
    scaled_down: VisibleJobs = _NONE
    started: VisibleJobs = _NONE
    spared: VisibleJobs = _NONE
    delayed: VisibleJobs = _NONE
    left_out: int = 0
    timed_out: bool = False


def preview_queue_settings(
    *,
    acting_user: Actor,
    queue: Queue,
    values: Mapping[str, Any],
    preset: Preset | None = None,
    flavors: Sequence[Flavor] | None = None,
) -> PolicyPreview:
    """Compare the next cycle with new settings of a queue to the one with its current settings.

    Raises: PermissionDenied, as `queue_update`.
    """
    wanted = queue_check(acting_user=acting_user, queue=queue, values=values, preset=preset)
    if flavors is None and all(getattr(queue, name) == value for name, value in wanted.items()):
        return PolicyPreview(changes=False)
    changed = copy(queue)
    for name, value in wanted.items():
        setattr(changed, name, value)
    order = None if flavors is None else tuple(str(flavor.pk) for flavor in flavors)
    change = partial(_put_queue, changed=changed, order=order)
    return _describe(acting_user, compare_cycles(queue.cell_id, change))


def preview_sharing(*, acting_user: Actor, cell: Cell, sharing: Sharing) -> PolicyPreview:
    """Compare the next cycle with another sharing of unused quota to the one with the current sharing.

    Raises: PermissionDenied.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    if sharing == cell.sharing:
        return PolicyPreview(changes=False)
    return _describe(acting_user, compare_cycles(cell.pk, _change_nothing, sharing=sharing.value))


def _put_queue(
    snapshot: engine.Snapshot, *, changed: Queue, order: tuple[str, ...] | None
) -> Iterable[engine.Change]:
    present = snapshot.queues.get(str(changed.pk))
    if present is not None:  # otherwise another engine decides about the queue
        yield engine.QueuePut(engine_queue(changed, present.flavors if order is None else order))


def _change_nothing(_snapshot: engine.Snapshot) -> Iterable[engine.Change]:
    return ()


def _describe(acting_user: Actor, jobs: JobsPreview) -> PolicyPreview:
    visible: set[uuid.UUID] = set(
        permissions.tenants_with(acting_user, Permission.JOB_VIEW).values_list("pk", flat=True)
    )
    return PolicyPreview(
        changes=True,
        reclaimed=name_visible(jobs.reclaimed, visible),
        scaled_down=name_visible(jobs.scaled_down, visible),
        started=name_visible(jobs.started, visible),
        spared=name_visible(jobs.spared, visible),
        delayed=name_visible(jobs.delayed, visible),
        left_out=jobs.left_out,
        timed_out=jobs.timed_out,
    )
