"""What scheduling plugs into the layers below it."""

from __future__ import annotations

from typing import Any, Final

from clusters.models import Cell
from foundation import health, metrics, outbox
from quotas import effect, evidence
from scheduling import metrics as scheduling_metrics
from scheduling import potential, tasks
from scheduling.models import PriorityGrant, WorkspacePolicy
from scheduling.quota_effect import foresee
from scheduling.selectors.pending import pending_demand
from scheduling.selectors.use import use_evidence
from scheduling.services import feasibility
from scheduling.services.drain import quota_drain
from scheduling.services.vacate import queue_vacate
from scheduling.tenant_tree import JobTreeWatcher
from tenants import effects, row_policies

TASKS: Final[dict[outbox.Topic, Any]] = {
    outbox.Topic.CYCLE: tasks.run_cycle,
    outbox.Topic.FREED: tasks.run_cycle_freed,
    outbox.Topic.EXECUTE: tasks.execute_cluster,
    outbox.Topic.OBSERVE: tasks.observe_cluster,
    outbox.Topic.DELEGATE: tasks.delegate_cluster,
    outbox.Topic.LISTEN: tasks.delegate_listen,
}
"""What each hint wakes."""


_LAST_CYCLE: Final = health.heartbeat_check(
    "cycle", within_s=60, help_text="is a worker reading the queue `cycle`?"
)


def connect() -> None:
    """Register which task each hint wakes and what readiness means here."""
    for topic, task in TASKS.items():
        outbox.register(topic, task.delay, task.run)
    metrics.register("foundation", metrics.own_figures)
    metrics.register("scheduling", scheduling_metrics.figures)
    row_policies.reads_above(PriorityGrant, WorkspacePolicy)
    feasibility.register(potential.misfit)
    effects.register("scheduling", JobTreeWatcher())
    effect.register(
        effect.Answers(foresee=foresee, drain=quota_drain, pending=pending_demand, vacate=queue_vacate)
    )
    evidence.register("use", use_evidence)
    health.register("worker", health.worker_heartbeat())
    health.register("cycle", _cycle)


def _cycle() -> health.CheckResult:
    """Whether cycles are run; without a cell there are none to run."""
    if not Cell.unscoped.exists():
        return health.CheckResult("cycle", True, "there is no cell yet")
    return _LAST_CYCLE()
