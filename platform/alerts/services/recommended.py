"""Rules that every installation should have."""

from __future__ import annotations

from typing import Any, Final

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from alerts.metrics.catalogue import CLUSTER_UNREACHABLE
from alerts.models import AlertRule, AlertSeverity
from alerts.services.access import require_edit
from alerts.services.rule import create_rule
from foundation.core.actor import Actor

_RECOMMENDED: Final[tuple[tuple[Any, str, float, int, AlertSeverity], ...]] = (
    (gettext_lazy("Cluster unreachable"), CLUSTER_UNREACHABLE, 60, 0, AlertSeverity.CRITICAL),
    (gettext_lazy("No GPU samples"), "cluster.no_samples_s", 120, 0, AlertSeverity.WARNING),
    (gettext_lazy("Data source silent"), "source.silent_s", 120, 0, AlertSeverity.WARNING),
    (gettext_lazy("Node not ready"), "node.unready_s", 120, 0, AlertSeverity.WARNING),
    (gettext_lazy("Unhealthy GPU"), "gpu.unhealthy", 0, 60, AlertSeverity.CRITICAL),
    (gettext_lazy("Hot GPU"), "gpu.temperature_c", 85, 300, AlertSeverity.WARNING),
    (gettext_lazy("XID error"), "gpu.xid_errors", 0, 0, AlertSeverity.WARNING),
    (gettext_lazy("GPU lost or driver fault"), "gpu.faults", 0, 0, AlertSeverity.CRITICAL),
    (gettext_lazy("Slowed GPU"), "gpu.throttle_reasons", 0, 300, AlertSeverity.WARNING),
    (gettext_lazy("Process without allocation"), "gpu.unknown_processes", 0, 60, AlertSeverity.WARNING),
    (gettext_lazy("Slice above its allocation"), "job.slices_over_allocation", 0, 60, AlertSeverity.WARNING),
    (gettext_lazy("Platform check failed"), "platform.failed_check", 0, 120, AlertSeverity.CRITICAL),
)
"""Name, metric, threshold (above), seconds for which the condition must hold, severity."""


@transaction.atomic
def create_recommended_rules(*, acting_user: Actor) -> list[AlertRule]:
    """Create the recommended platform rules whose metric has no platform rule yet.

    They have no channels: the operator chooses who is notified. Raises: PermissionDenied.
    """
    require_edit(acting_user, None)
    known = set(AlertRule.unscoped.filter(tenant=None).values_list("metric", flat=True))
    names = set(AlertRule.unscoped.filter(tenant=None).values_list("name", flat=True))
    return [
        create_rule(
            acting_user=acting_user,
            tenant=None,
            values={
                "name": _free_name(str(name), names),
                "metric": metric,
                "threshold": float(threshold),
                "hold_s": hold_s,
                "severity": severity,
            },
        )
        for name, metric, threshold, hold_s, severity in _RECOMMENDED
        if metric not in known
    ]


def _free_name(name: str, taken: set[str]) -> str:
    return _("%(name)s (recommended)") % {"name": name} if name in taken else name
