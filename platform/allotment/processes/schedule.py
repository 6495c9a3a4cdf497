"""The beat schedule. Every entry is a level-triggered sweep: missing one only costs time.

An entry that waited in the queue for longer than two periods is dropped (`expires`): its successor does the
same work, and a worker that was down must not find many identical sweeps. This is shorter than the time after
which the broker delivers an unacknowledged message to a second worker.
"""

from __future__ import annotations

from typing import Any, Final

_LONGEST_WAIT_S: Final = 240.0


def _entry(task: str, every_s: float) -> dict[str, Any]:
    return {"task": task, "schedule": every_s, "options": {"expires": min(2 * every_s, _LONGEST_WAIT_S)}}


def beat_schedule(*, observe_every_s: float, demo: bool) -> dict[str, dict[str, Any]]:
    """Return Celery's `beat_schedule`; all periods in seconds. `demo` adds the simulated users."""
    entries = {
        "sweep": _entry("scheduling.tasks.sweep_owed", 2.0),
        "watch-starts": _entry("scheduling.tasks.watch_starts", 10.0),
        "observe-clusters": _entry("scheduling.tasks.observe_clusters", observe_every_s),
        "collect-samples": _entry("telemetry.tasks.collect_samples", 10.0),
        "collect-sources": _entry("telemetry.tasks.collect_sources", 15.0),
        "report-idle": _entry("telemetry.tasks.report_idle", 30.0),
        "evaluate-alerts": _entry("alerts.tasks.evaluate_alert_rules", 15.0),
        "deliver-notifications": _entry("alerts.tasks.deliver_messages", 5.0),
        "prune-alerts": _entry("alerts.tasks.prune_resolved", 3600.0),
        "roll-up": _entry("telemetry.tasks.roll_up", 60.0),
        "sample-user-usage": _entry("scheduling.tasks.sample_user_usage", 300.0),
        "measure-preemption-loss": _entry("scheduling.tasks.measure_preemption_loss", 300.0),
        "record-measured-use": _entry("telemetry.tasks.record_measured_use", 300.0),
        "store-reports": _entry("telemetry.tasks.store_reports", 60.0),
        "predict-starts": _entry("scheduling.tasks.predict_starts", 60.0),
        "start-simulations": _entry("scheduling.tasks.start_simulations", 2.0),
        "record-usage": _entry("scheduling.tasks.record_usage", 60.0),
        "sweep-loans": _entry("quotas.tasks.sweep_loans", 5.0),
        "expire-requests": _entry("quotas.tasks.expire_requests", 60.0),
        "stop-over-budget": _entry("scheduling.tasks.stop_over_budget", 30.0),
        "watch-budgets": _entry("quotas.tasks.watch_budgets", 30.0),
        "govern-clusters": _entry("scheduling.tasks.govern_clusters", 60.0),
        "prune": _entry("scheduling.tasks.prune_expired", 100.0),
        "seal-audit": _entry("foundation.tasks.seal_audit", 5.0),
        "heartbeat": _entry("foundation.tasks.heartbeat", 10.0),
    }
    if demo:
        entries["demo-workload"] = _entry("allotment.tasks.demo_workload", 3.0)
        entries["demo-history"] = _entry("allotment.tasks.demo_history", 10.0)
    return entries
