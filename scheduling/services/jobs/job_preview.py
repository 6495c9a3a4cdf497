"""The outcome of a job if it were submitted now: one engine cycle with it, and nothing written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from foundation.core import clock
from foundation.core.quantities import Resource
from scheduling import engine
from scheduling.engine.model import CycleResult, DecisionKind, Instant
from scheduling.engine_input.allowances import AllowanceReader
from scheduling.engine_input.config import preview_config
from scheduling.engine_input.jobs import ASKED, asked_job
from scheduling.services.jobs.job_check import Submission
from scheduling.snapshots import CellSnapshot, cell_snapshot


@dataclass(frozen=True, slots=True)
class JobPreview:
    """`reason` is empty when the job would start in the next cycle, else why it would wait.

    `pools` is the compute that it would be given by pool, in percent points of a GPU; empty unless it starts.
    `timed_out`: the cycle took longer than the deadline of `preview_config`, so nothing is known.
    """

    reason: str
    numbers: Mapping[str, Any]
    help: Sequence[Mapping[str, Any]]
    pools: Mapping[str, int] = field(default_factory=dict)
    timed_out: bool = False

    @property
    def starts(self) -> bool:
        return not self.reason and not self.timed_out


def preview_submission(submission: Submission) -> JobPreview:
    """Ask the engine about a submission that `job_check` has let through.

    The cycle is the one that would run now, with everybody else who waits; the answer holds for this
    moment and promises nothing.
    """
    taken = cell_snapshot(submission.queue.cell_id)
    return preview_in(taken, submission, preview_config(taken.sharing, advise_for=ASKED))


def preview_in(taken: CellSnapshot, submission: Submission, config: engine.EngineConfig) -> JobPreview:
    """Run the cycle of a preview on a snapshot, which is used up."""
    queue, now = submission.queue, clock.now()
    user = submission.submitted_by.pk
    job = asked_job(submission.spec, queue, user=user, priority=submission.priority.value, now=now)
    limits = AllowanceReader([queue.workspace], now=now)
    job = limits.apply_limits(job, workspace_id=queue.workspace_id, user_id=submission.submitted_by.pk)
    taken.snapshot.apply_delta(engine.Delta((engine.JobPut(job),)))
    try:
        result = engine.run_cycle(taken.snapshot, config, Instant(now.timestamp()))
    except engine.DeadlineExceededError:
        return JobPreview("", {}, [], timed_out=True)
    outcome = next(item for item in result.outcomes if item.job == ASKED)
    helps = [{"code": h.code.value, "numbers": taken.with_names(h.numbers)} for h in outcome.help]
    reason = outcome.reason.value if outcome.reason else ""
    pools = {taken.names[flavor]: amount for flavor, amount in _sum_compute(result).items()}
    return JobPreview(reason, taken.with_names(outcome.numbers), helps, pools)


def _sum_compute(result: CycleResult) -> Counter[str]:
    """The compute that the previewed job is admitted with, by flavor id."""
    found: Counter[str] = Counter()
    for decision in result.decisions:
        if decision.job == ASKED and decision.kind is DecisionKind.ADMIT:
            for charge in (charge for allocation in decision.allocations for charge in allocation.charges):
                if charge.resource == Resource.GPU_CORES:
                    found[charge.flavor] += charge.amount
    return found
