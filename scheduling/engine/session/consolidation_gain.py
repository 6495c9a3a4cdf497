"""What consolidation would give a job, and what it would cost the jobs that move."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.engine.gang.moves import MovePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationGain:
    """What consolidation would do for one job: cards that it would get, tasks and jobs that would move,
    and the GPU-seconds of work that the movers would do again."""

    cards: int
    tasks: int
    jobs: int
    gpu_seconds: float
    plan: MovePlan
