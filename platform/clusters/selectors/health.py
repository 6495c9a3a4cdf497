"""The lines of `allotment doctor` about the clusters."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from clusters.models import Cluster, ClusterHealth
from foundation.core import clock
from foundation.monitoring.health import CheckResult

SEEN_WITHIN: Final = timedelta(seconds=60)


def check_clusters() -> CheckResult:
    """Check whether each cluster answered the last call, was observed a short time ago and lacks no
    permission.
    """
    clusters = list(Cluster.unscoped.order_by("name"))
    if not clusters:
        return CheckResult("clusters", False, "there is none", "run: allotment cluster add")
    wrong = [f"{cluster.name}: {why}" for cluster in clusters if (why := _trouble(cluster))]
    if wrong:
        text = "is the cluster up, and its connection right? is a worker reading the queue `cluster`?"
        return CheckResult("clusters", False, "; ".join(wrong), text)
    lacking = [_missing(cluster) for cluster in clusters if cluster.missing_permissions]
    if lacking:
        text = "apply deploy/kubernetes/access.yaml again, and kueue.yaml for a cluster with Kueue"
        return CheckResult("clusters", False, "; ".join(lacking), text)
    return CheckResult("clusters", True, f"{len(clusters)} reachable")


def _missing(cluster: Cluster) -> str:
    return f"{cluster.name}: missing permissions: {', '.join(cluster.missing_permissions or ())}"


def _trouble(cluster: Cluster) -> str:
    if cluster.health in (ClusterHealth.UNREACHABLE, ClusterHealth.DISOWNED):
        return cluster.health_message or str(cluster.health)
    if cluster.observed_at is None:
        return "has not been looked at yet"
    age = clock.now() - cluster.observed_at
    return f"last looked at {age.total_seconds():.0f} s ago" if age > SEEN_WITHIN else ""
