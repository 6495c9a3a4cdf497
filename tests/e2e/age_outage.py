"""Moves what a running platform measured before the open gap of a cluster into the past, and its beginning.

Run as `python -m tests.e2e.age_outage CLUSTER SECONDS` in the platform's environment: an outage that has just
begun is then one of ten minutes.
"""

from __future__ import annotations

import sys
from datetime import timedelta

import django

django.setup()

from django.db.models import F  # noqa: E402  (Django has to be set up first)

from clusters.models import Cluster  # noqa: E402
from telemetry.models import Reading, TelemetryGap, Tick  # noqa: E402


def main(name: str, seconds: str) -> None:
    """Move readings, sums, the gap and the state of the cluster."""
    cluster, back = Cluster.unscoped.get(name=name), timedelta(seconds=int(seconds))
    gaps = TelemetryGap.unscoped.filter(cluster=cluster, ended_at=None)
    assert gaps.update(started_at=F("started_at") - back) == 1
    for model in (Reading, Tick):
        # No row meets another one: the platform has not run for as long as the rows are moved.
        rows = model.unscoped.filter(channel__cluster_id=cluster.pk)
        rows.update(at_ms=F("at_ms") - 1000 * int(seconds))
    Cluster.unscoped.filter(pk=cluster.pk).update(health_since=F("health_since") - back)


if __name__ == "__main__":
    main(*sys.argv[1:])
