"""Celery tasks. Each one may run twice, late, or concurrently with itself."""

from __future__ import annotations

import uuid

from celery import shared_task

from foundation.core import clock
from foundation.messaging.due_hints import drain_due_hints
from foundation.web import idempotency
from scheduling.delegation import run as delegation
from scheduling.execution import execute, gangs, observe
from scheduling.metering import record_usage as usage_records
from scheduling.models import PolicyReplay
from scheduling.services import cycle, govern, preemption_loss, spent_budget, user_usage
from scheduling.services import sweep as sweeping
from scheduling.services.policy_replay import run as policy_replays
from scheduling.services.simulations import background_run
from scheduling.services.start_estimate import request as start_requests
from scheduling.services.start_estimate import run as start_estimates
from scheduling.services.start_prediction import outcomes, predict
from tenants.sign_in import sign_in_limits


@shared_task(name="scheduling.tasks.run_cycle")
def run_cycle(cell_id: str) -> None:
    """Run an engine cycle of a cell."""
    with drain_due_hints():
        cycle.cycle_run(cell_id=uuid.UUID(cell_id))


@shared_task(name="scheduling.tasks.run_cycle_freed")
def run_cycle_freed(cell_id: str) -> None:
    """Run an engine cycle of a cell in which quota was released."""
    with drain_due_hints():
        cycle.cycle_run(cell_id=uuid.UUID(cell_id), freed=True)


@shared_task(name="scheduling.tasks.execute_cluster")
def execute_cluster(cluster_id: str) -> None:
    """Create and remove pods of a cluster as its rows say."""
    with drain_due_hints():
        execute.execute_cluster(cluster_id=uuid.UUID(cluster_id))


@shared_task(name="scheduling.tasks.observe_cluster")
def observe_cluster(cluster_id: str) -> None:
    """Read the changes in a cluster and apply them."""
    with drain_due_hints():
        observe.observe_cluster(cluster_id=uuid.UUID(cluster_id))


@shared_task(name="scheduling.tasks.delegate_cluster")
def delegate_cluster(cluster_id: str) -> None:
    """Reconcile a cluster whose own engine admits jobs."""
    with drain_due_hints():
        delegation.delegation_run(cluster_id=uuid.UUID(cluster_id))


@shared_task(name="scheduling.tasks.delegate_listen")
def delegate_listen(cluster_id: str) -> None:
    """Follow the changes in a cluster whose own engine admits jobs."""
    with drain_due_hints():
        delegation.delegation_listen(cluster_id=uuid.UUID(cluster_id))


@shared_task(name="scheduling.tasks.observe_clusters")
def observe_clusters() -> None:
    """Add a hint to observe every cluster."""
    sweeping.hint_observation()


@shared_task(name="scheduling.tasks.govern_clusters")
def govern_clusters() -> None:
    """Update the namespaces of workspaces in clusters, and mark leftover objects of gangs for removal."""
    govern.govern_clusters()
    gangs.note_left_everywhere()


@shared_task(name="scheduling.tasks.prune_expired")
def prune_expired() -> None:
    """Delete expired idempotency keys and records of sign-ins."""
    idempotency.idempotency_prune(before=clock.now() - idempotency.RETENTION)
    sign_in_limits.sign_ins_prune(now=clock.now())


@shared_task(name="scheduling.tasks.predict_starts")
def predict_starts() -> None:
    """Start the most overdue forecast of a cell, unless one is running, and delete old predictions."""
    _start_due_forecast()
    outcomes.prune_predictions(now=clock.now())
    start_requests.prune_estimates(now=clock.now())


def _start_due_forecast() -> None:
    found = predict.find_cell_to_predict(now=clock.now())
    if found is not None:
        predict_cell_starts.apply_async((str(found),), expires=60)


@shared_task(
    name="scheduling.tasks.predict_cell_starts",
    soft_time_limit=predict.TASK_LIMIT_S - 10,
    time_limit=predict.TASK_LIMIT_S,
)
def predict_cell_starts(cell_id: str) -> None:
    """Predict the starts of the pending jobs of one cell, then start the next forecast that is due."""
    predict.predict_starts(cell_id=uuid.UUID(cell_id), now=clock.now())
    _start_due_forecast()


@shared_task(name="scheduling.tasks.start_simulations")
def start_simulations() -> None:
    """Start the next policy replay or estimate of starts, unless one is running."""
    found = background_run.find_simulation_to_run(now=clock.now())
    if found is not None:
        task = run_policy_replay if isinstance(found, PolicyReplay) else run_start_estimate
        task.apply_async((str(found.pk),), expires=60)


@shared_task(
    name="scheduling.tasks.run_start_estimate",
    soft_time_limit=start_estimates.TASK_LIMIT_S - 10,
    time_limit=start_estimates.TASK_LIMIT_S,
)
def run_start_estimate(estimate_id: str) -> None:
    """Compute one estimate of starts."""
    start_estimates.run_estimate(uuid.UUID(estimate_id))


@shared_task(
    name="scheduling.tasks.run_policy_replay",
    acks_late=False,  # it takes longer than the broker waits; `find_simulation_to_run` finds lost ones
    soft_time_limit=policy_replays.TASK_LIMIT_S - 10,
    time_limit=policy_replays.TASK_LIMIT_S,
)
def run_policy_replay(replay_id: str) -> None:
    """Compute one policy replay."""
    policy_replays.run_replay(uuid.UUID(replay_id))


@shared_task(name="scheduling.tasks.sample_user_usage")
def sample_user_usage() -> None:
    """Update the recent usage of users with their current usage."""
    user_usage.user_usage_sample(now=clock.now())


@shared_task(name="scheduling.tasks.measure_preemption_loss")
def measure_preemption_loss() -> None:
    """Measure the GPU time that preemption discarded lately in each cell."""
    preemption_loss.measure_preemption_loss(now=clock.now())


@shared_task(name="scheduling.tasks.record_usage")
def record_usage() -> None:
    """Write the usage intervals of ended runs."""
    usage_records.record_usage(now=clock.now())


@shared_task(name="scheduling.tasks.stop_over_budget")
def stop_over_budget() -> None:
    """Suspend running preemptible jobs whose budget is used up, if the budget's action is to stop them."""
    spent_budget.stop_over_budget(now=clock.now())


@shared_task(name="scheduling.tasks.sweep_owed")
def sweep_owed() -> None:
    """Do or request the work that rows show as due."""
    sweeping.sweep_cells()


@shared_task(name="scheduling.tasks.watch_starts")
def watch_starts() -> None:
    """End starts that take too long, and enforce the rules for idle jobs."""
    sweeping.watch_starts()
