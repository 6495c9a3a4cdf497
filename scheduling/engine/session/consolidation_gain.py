"""This module states what consolidation would give a job, and what it would cost the jobs that move."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.engine.gang.moves import MovePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationGain:
    """The result of a search for moves: the cards that the job would get, the tasks and jobs that would move,
    and the GPU-seconds of work that these would repeat."""

    cards: int
    tasks: int
    jobs: int
    gpu_seconds: float
    plan: MovePlan
