"""Metrics of the platform itself."""

from __future__ import annotations

from datetime import datetime

from alerts.metrics.base import Observation
from foundation.monitoring.health import run_checks


def read_failed_checks(now: datetime) -> list[Observation]:
    """Count 1 for each readiness check that fails, 0 for the others, as `/readyz/platform` lists them."""
    return [
        Observation(
            subject=check.name,
            label=check.name if check.ok else f"{check.name}: {check.message}"[:300],
            value=0.0 if check.ok else 1.0,
        )
        for check in run_checks()
    ]
