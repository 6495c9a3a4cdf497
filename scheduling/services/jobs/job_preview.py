"""Previews the outcome of a submission by one engine cycle with the job; nothing is written."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from foundation.core import clock
from scheduling import engine
from scheduling.engine import model as em
from scheduling.engine.model import CycleResult, Decision, DecisionKind, EvictRule, Instant
from scheduling.engine_input.allowances import AllowanceReader
from scheduling.engine_input.config import preview_config
from scheduling.engine_input.jobs import ASKED, asked_job
from scheduling.engine_input.volume_claims import ClaimReader
from scheduling.metering.intervals import borrowed_by_flavor, gpu_percent
from scheduling.models import Job
from scheduling.services.jobs.job_check import Submission
from scheduling.services.jobs.preview_trial import HelpTrial, is_move, list_releases
from scheduling.services.previewing import preview
from scheduling.snapshots import CellSnapshot, read_cell


@dataclass(frozen=True, slots=True)
class PreviewedTask:
    """The placement of one task of the previewed job; `charge` is its charge by resource."""

    node: str
    flavor_id: uuid.UUID
    flavor: str
    charge: Mapping[str, int]
    sliced: bool

    @property
    def percent(self) -> int:
        """The compute of the task, in percent points of a GPU."""
        return gpu_percent(self.charge)


@dataclass(frozen=True, slots=True)
class PreviewedPreemption:
    """A job that would be preempted, or else moved to other nodes, for the previewed one, and the rule."""

    job: Job
    rule: EvictRule
    moved: bool = False


@dataclass(frozen=True, slots=True)
class JobPreview:
    """The outcome of the preview; `reason` is empty if the job would start in the next cycle.

    `tasks` are the placements with which it starts, or which it claims while `preempted` jobs end.
    `borrowed` is the compute beyond its queue's own quota by pool, in percent points of a GPU.
    `timed_out`: the cycle exceeded the deadline of `preview_config`, so the outcome is unknown.
    """

    reason: str
    numbers: Mapping[str, Any]
    help: Sequence[Mapping[str, Any]]
    tasks: Sequence[PreviewedTask] = ()
    borrowed: Mapping[str, int] = field(default_factory=dict)
    preempted: Sequence[PreviewedPreemption] = ()
    timed_out: bool = False

    @property
    def starts(self) -> bool:
        return not self.reason and not self.timed_out

    @property
    def pools(self) -> Mapping[str, int]:
        """The job's compute by pool, in percent points of a GPU; empty unless it starts."""
        found: Counter[str] = Counter()
        for task in self.tasks if self.starts else ():
            found[task.flavor] += task.percent
        return found


def _build_timed_out(_submission: Submission) -> JobPreview:
    return JobPreview("", {}, [], timed_out=True)


@preview(when_late=_build_timed_out)
def preview_submission(submission: Submission) -> JobPreview:
    """Preview a submission that has passed `job_check`.

    The cycle is the one that would run now with all other pending jobs; its outcome may differ later.
    """
    reading, now = read_cell(submission.queue.cell_id), clock.now()
    config = preview_config(reading.sharing, advise_for=ASKED)
    job = build_engine_job(submission, now)
    trial = HelpTrial(
        reading.build_snapshot, replace(config, advise_for=""), Instant(now.timestamp()), job, copy=job
    )
    return _preview(reading.build_snapshot(), job, config, now, trial)


def preview_in(taken: CellSnapshot, submission: Submission, config: engine.EngineConfig) -> JobPreview:
    """Run the cycle of a preview on a snapshot, which it changes; recommendations are not tried."""
    now = clock.now()
    return _preview(taken, build_engine_job(submission, now), config, now)


def build_engine_job(submission: Submission, now: datetime) -> em.Job:
    """Return the job that the engine would have if the submission was made now; its id is `ASKED`."""
    queue, user = submission.queue, submission.submitted_by.pk
    job = asked_job(submission.spec, queue, user=user, priority=submission.priority.value, now=now)
    row = Job(workspace_id=queue.workspace_id, volumes=submission.spec.volumes, submitted_at=now)
    mounted = ClaimReader(queue.cell_id, [row], assume_bound=True)
    limits = AllowanceReader([queue.workspace], now=now)
    limited = limits.apply_limits(job, workspace_id=queue.workspace_id, user_id=user)
    return replace(mounted.apply_claims(limited, row), min_run_s=submission.min_run_s)


def _preview(
    taken: CellSnapshot,
    job: em.Job,
    config: engine.EngineConfig,
    now: datetime,
    trial: HelpTrial | None = None,
) -> JobPreview:
    taken.snapshot.apply_delta(engine.Delta((engine.JobPut(job),)))
    try:
        result = engine.run_cycle(taken.snapshot, config, Instant(now.timestamp()))
    except engine.DeadlineExceededError:
        return JobPreview("", {}, [], timed_out=True)
    outcome = next(item for item in result.outcomes if item.job == ASKED)
    helps = outcome.help if trial is None else trial.try_all(outcome.help)
    own = next((each for each in result.decisions if _places_asked(each)), None)
    return JobPreview(
        reason=outcome.reason.value if outcome.reason else "",
        numbers=taken.with_names(outcome.numbers),
        help=[{"code": h.code.value, "numbers": taken.with_names(h.numbers)} for h in helps],
        tasks=_tasks_of(own, job, taken) if own else (),
        borrowed=_borrowed_by_pool(own, taken) if own else {},
        preempted=_preempted(result, taken),
    )


def _places_asked(decision: Decision) -> bool:
    kinds = (DecisionKind.ADMIT, DecisionKind.PARK)
    return decision.job == ASKED and decision.kind in kinds and bool(decision.allocations)


def _tasks_of(decision: Decision, job: em.Job, taken: CellSnapshot) -> list[PreviewedTask]:
    modes = {role.name: role.request.gpu.mode for role in job.roles if role.request.gpu}
    return [
        PreviewedTask(
            node=taken.names.get(task.node, ""),
            flavor_id=uuid.UUID(task.flavor),
            flavor=taken.names[task.flavor],
            charge={str(charge.resource): charge.amount for charge in task.charges},
            sliced=modes.get(task.role, em.GpuMode.WHOLE) is not em.GpuMode.WHOLE,
        )
        for task in decision.allocations
    ]


def _borrowed_by_pool(decision: Decision, taken: CellSnapshot) -> dict[str, int]:
    held: Counter[str] = Counter()
    for charge in (charge for task in decision.allocations for charge in task.charges):
        held[f"{charge.flavor}/{charge.resource}"] += charge.amount
    loans = {f"{loan.flavor}/{loan.resource}": loan.amount for loan in decision.borrowed}
    return {taken.names[key]: points for key, points in borrowed_by_flavor(loans, held).items() if points}


def _preempted(result: CycleResult, taken: CellSnapshot) -> list[PreviewedPreemption]:
    return [
        PreviewedPreemption(taken.jobs[each.job], each.rule, moved=is_move(each))
        for each in list_releases(result, ASKED)
        if each.rule and each.job in taken.jobs
    ]
