"""What scheduling plugs into the layers below it."""

from __future__ import annotations

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


def connect() -> None:
    """Register which task each hint wakes and what readiness means here."""
    outbox.register(outbox.Topic.CYCLE, lambda key: tasks.run_cycle.delay(key))
    outbox.register(outbox.Topic.EXECUTE, lambda key: tasks.execute_cluster.delay(key))
    outbox.register(outbox.Topic.OBSERVE, lambda key: tasks.observe_cluster.delay(key))
    outbox.register(outbox.Topic.DELEGATE, lambda key: tasks.delegate_cluster.delay(key))
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
    health.register(
        "cycle",
        health.heartbeat_check("cycle", within_s=60, help_text="is a worker reading the queue `cycle`?"),
    )
