"""Evaluates the gates of a pending job, and tries its recommendations with all other jobs; writes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from foundation.core import clock
from foundation.core.errors import Invalid
from scheduling import engine
from scheduling.engine import model as em
from scheduling.engine.model import Instant
from scheduling.engine_input.allowances import AllowanceReader
from scheduling.engine_input.config import preview_config
from scheduling.engine_input.jobs import asked_job
from scheduling.engine_input.volume_claims import ClaimReader
from scheduling.job_file import parse_job, to_mapping
from scheduling.models import Job
from scheduling.selectors.jobs.exchangeable import is_delegated
from scheduling.services.jobs.preview_trial import HelpTrial
from scheduling.services.previewing import preview
from scheduling.services.start_prediction.changed_job import Bounds, ChangedStarts
from scheduling.snapshots import CellSnapshot, read_cell
from scheduling.snapshots.delegated import read_delegated
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

_UNESTIMATED: Final[Mapping[str, int]] = {"unestimated": 1}


@dataclass(frozen=True, slots=True)
class RoomNow:
    """The tasks that each node would hold now if there were enough quota, by the name of the node.

    Empty if not all tasks fit: then `numbers` are those of the reason NO_ROOM.
    """

    tasks: Mapping[str, int]
    numbers: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCheck:
    """The outcome of a pending job in a cycle that would run now, and the gates that apply to it.

    `pool` is the pool of `preemption`. `help` are the recommendations with the job's outcome in a cycle with
    all other jobs.
    """

    starts: bool
    reason: str
    room: RoomNow | None
    preemption: engine.PreemptionGate | None
    pool: str
    help: Sequence[Mapping[str, Any]]


def _give_none(**_kwargs: Any) -> PendingCheck | None:
    return None


@preview(when_late=_give_none)
def check_pending_job(*, viewer: User, job: Job, estimate: bool = False) -> PendingCheck | None:
    """Evaluate the gates of a pending job, and try its recommendations.

    A change of the job is tried as a new submission of the viewer beside the job; more quota is tried for the
    job itself. With `estimate`, recommendations after which the job still waits have its expected start, if
    known: `expected` is the median, `likely_from` and `likely_to` the 50 % range, in epoch seconds;
    `unestimated` is set if the time of the preview was over before.
    None if a cluster's own scheduler decides about the job, if it is no longer pending, or if a cycle exceeds
    the time of a preview.
    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.JOB_VIEW, job.workspace)
    if is_delegated(job):
        return None
    cell_id, now = job.queue.cell_id, clock.now()
    reading = read_cell(cell_id, but=read_delegated(cell_id))
    taken, key, at = reading.build_snapshot(), str(job.pk), Instant(now.timestamp())
    config = preview_config(reading.sharing, advise_for=key)
    waiting = taken.snapshot.jobs.get(key)
    if waiting is None:
        return None
    try:
        found = engine.examine_job(taken.snapshot, config, at, key)
    except engine.DeadlineExceededError:
        return None
    if found is None:
        return None
    copy, helps = _copy(job, viewer, now), list(found.outcome.help)
    if copy is not None:
        trial = HelpTrial(reading.build_snapshot, replace(config, advise_for=""), at, waiting, copy=copy)
        helps = trial.try_all(helps)
        if estimate:
            helps = _add_expected(helps, trial, ChangedStarts(job, cell_id, now), config)
    gate = found.preemption
    return PendingCheck(
        starts=found.outcome.reason is None,
        reason=found.outcome.reason or "",
        room=_room(found.room, taken) if found.room else None,
        preemption=gate,
        pool=taken.names.get(gate.key.flavor, "") if gate and gate.key else "",
        help=[{"code": each.code.value, "numbers": taken.with_names(each.numbers)} for each in helps],
    )


def _add_expected(
    helps: Sequence[em.Help], trial: HelpTrial, starts: ChangedStarts, config: engine.EngineConfig
) -> list[em.Help]:
    """Return the recommendations with the expected start of those after which the job still waits.

    All estimates together end at the deadline of the configuration: each gets an equal part of the remaining
    time.
    """
    changes = {_key_of(together): together for together in _list_waiting(helps, trial)}
    known: dict[tuple[str, ...], Mapping[str, int]] = {}
    for place, (key, together) in enumerate(changes.items()):
        left_s = _read_time_left(config) / (len(changes) - place)
        known[key] = _UNESTIMATED
        with suppress(engine.DeadlineExceededError):
            if left_s > 0:
                known[key] = _expect(starts.predict_start(*trial.apply_helps(together), within_s=left_s))
    return [
        em.Help(each.code, {**each.numbers, **known[_key_of(trial.select_together(each, helps))]})
        if "also" in each.numbers
        else each
        for each in helps
    ]


def _list_waiting(helps: Sequence[em.Help], trial: HelpTrial) -> Iterator[list[em.Help]]:
    """Yield each recommendation after which the job still waits, with those that it depends on."""
    for each in helps:
        if "also" in each.numbers:
            yield trial.select_together(each, helps)


def _key_of(together: Sequence[em.Help]) -> tuple[str, ...]:
    return tuple(sorted(f"{one.code} {sorted(one.numbers.items())}" for one in together))


def _read_time_left(config: engine.EngineConfig) -> float:
    if config.deadline is None or config.stopwatch is None:
        return math.inf
    return config.deadline - config.stopwatch()


def _expect(found: tuple[datetime, Bounds] | None) -> Mapping[str, int]:
    if found is None:
        return {}
    expected, (first, last) = found
    moments = {"expected": expected, "likely_from": first, "likely_to": last}
    return {name: int(moment.timestamp()) for name, moment in moments.items() if moment is not None}


def _copy(job: Job, user: User, now: datetime) -> em.Job | None:
    """Return the job that a submission of its job file would make; None if this version refuses the file,
    which an older version accepted."""
    try:
        spec = parse_job(to_mapping(job))
    except Invalid:
        return None
    copy = asked_job(spec, job.queue, user=user.pk, priority=job.priority, now=now)
    limits = AllowanceReader([job.workspace], now=now)
    limited = limits.apply_limits(copy, workspace_id=job.workspace_id, user_id=user.pk)
    return ClaimReader(job.queue.cell_id, [job]).apply_claims(limited, job)


def _room(gate: engine.RoomGate, taken: CellSnapshot) -> RoomNow:
    tasks: dict[str, int] = {}
    for place in gate.places:
        name = taken.names.get(place.node, "") or taken.names.get(place.flavor, "")
        tasks[name] = tasks.get(name, 0) + 1
    return RoomNow(dict(sorted(tasks.items())), taken.with_names(gate.numbers))
