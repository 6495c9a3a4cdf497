"""Registers the functions of scheduling in the layers below it.

Imports that need the engine are deferred, because most commands never use it.
"""

from __future__ import annotations

from typing import Final

from clusters.hooks import restarts
from clusters.models import Cell
from foundation.core.lazy_import import defer_import
from foundation.messaging import outbox
from foundation.monitoring import health, metrics
from quotas.hooks import job_effects, request_evidence
from scheduling.models import PriorityGrant, StartEstimate, WorkspacePolicy
from scheduling.monitoring import metrics as scheduling_metrics
from scheduling.selectors.pending.pending import pending_demand
from scheduling.services.tenant_tree import JobTreeWatcher
from tenants.access import row_policies
from tenants.hooks import tree_effects

TASKS: Final[dict[outbox.Topic, str]] = {
    outbox.Topic.CYCLE: "run_cycle",
    outbox.Topic.FREED: "run_cycle_freed",
    outbox.Topic.EXECUTE: "execute_cluster",
    outbox.Topic.OBSERVE: "observe_cluster",
    outbox.Topic.DELEGATE: "delegate_cluster",
    outbox.Topic.LISTEN: "delegate_listen",
}
"""The function of `scheduling.tasks` that the hints of a topic run."""


_LAST_CYCLE: Final = health.heartbeat_check(
    "cycle", within_s=60, help_text="check that a worker consumes the queue `cycle`"
)


def connect_hooks() -> None:
    """Register the task of each hint, providers, metrics and health checks."""
    for topic, task in TASKS.items():
        path = f"scheduling.tasks:{task}"
        outbox.register_topic(topic, defer_import(f"{path}.delay"), defer_import(f"{path}.run"))
    metrics.register_metrics("foundation", metrics.own_figures)
    metrics.register_metrics("scheduling", scheduling_metrics.collect_figures)
    row_policies.reads_above(PriorityGrant, WorkspacePolicy)
    own = row_policies.Rule("{row}.user_id = (SELECT allotment_user())")
    row_policies.declare_rule(StartEstimate, own)
    tree_effects.register_watcher("scheduling", JobTreeWatcher())
    job_effects.register_provider(
        job_effects.JobEffectProvider(
            preview_change=defer_import("scheduling.services.quota_effect:preview_quota_change"),
            drain_over_quota=defer_import("scheduling.services.drain:quota_drain"),
            count_pending=pending_demand,
            empty_queue=defer_import("scheduling.services.vacate:queue_vacate"),
        )
    )
    restarts.register_answers(
        restarts.RestartAnswers(
            find=defer_import("scheduling.services.restarting:find_restarting"),
            hold=defer_import("scheduling.services.restarting:hold_restarting"),
        )
    )
    request_evidence.register_provider(
        "use", defer_import("scheduling.selectors.allocations.use:use_evidence")
    )
    health.register_check("worker", health.worker_heartbeat())
    health.register_check("cycle", _cycle)


def _cycle() -> health.CheckResult:
    """Check whether cycles run; without a cell there are none."""
    if not Cell.unscoped.exists():
        return health.CheckResult("cycle", True, "no scheduling domain yet")
    return _LAST_CYCLE()
