"""Metrics of the platform itself."""

from __future__ import annotations

from datetime import datetime

from alerts.metrics.base import Observation
from foundation.monitoring.health import run_checks


def read_failed_checks(now: datetime) -> list[Observation]:
    """Return 1 for each failing readiness check of `/readyz/platform`, 0 for the others."""
    return [
        Observation(
            subject=check.name,
            label=check.name if check.ok else f"{check.name}: {check.message}"[:300],
            value=0.0 if check.ok else 1.0,
        )
        for check in run_checks()
    ]
