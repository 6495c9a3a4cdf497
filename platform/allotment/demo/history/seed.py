"""Creates the simulated week of a new demo; later starts leave it as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.db import transaction
from django.db.models.signals import pre_save

from alerts.metrics.catalogue import CLUSTER_UNREACHABLE
from alerts.models import Alert, AlertRule, AlertState
from allotment.demo import faults
from allotment.demo.history.jobs import DAYS, draw_week
from allotment.demo.history.measured import OUTAGE
from allotment.demo.history.pods import start_pods
from allotment.demo.history.recording import read_predictions, read_recording
from allotment.demo.history.telemetry import (
    WeekMeasured,
    find_first_tick,
    join_present,
    write_gpus,
    write_sums,
)
from allotment.demo.history.write import collect_week, count_rows, with_own_creation_times
from allotment.demo.setup import WORKSPACES
from allotment.setup.accounts import OPERATOR
from clusters.models import Cluster, Device, NodeEvent
from foundation.core import clock
from foundation.models import AuditRecord, Heartbeat
from quotas.models import QuotaChange, QuotaRevision
from tenants.models import Tenant, User

log = structlog.get_logger(__name__)

_END: Final = "demo-history"
"""The heartbeat with the end of the week: earlier times are simulated history."""
_MEASURED, _BEGUN, _FIRST_TICK = "demo-measured", "demo-measured-begun", "demo-first-tick"
_LONGEST_START: Final = timedelta(minutes=5)
"""The longest time between the end of the week and the first measurement that is filled."""
_GIVEN_UP_AFTER: Final = timedelta(minutes=10)
"""A run that began so long ago and has not ended was interrupted, and is started again."""
_XID_AT: Final = (timedelta(days=1, hours=4, minutes=20), timedelta(days=5, hours=16, minutes=50))
_XID_LASTED: Final = timedelta(minutes=10)
_SET_UP_BEFORE: Final = timedelta(days=1)


def week_start(now: datetime) -> datetime:
    """Return the start of the week that ends now: a midnight in UTC, so that its days are calendar days."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=DAYS - 1)


@transaction.atomic
def seed_history(*, now: datetime) -> Counter[str]:
    """Write the jobs and allocations of the week that ends now; return the number of rows by kind.

    Measurements follow by `history_tick`, while the platform runs.
    """
    start = week_start(now)
    rows = collect_week(draw_week(), read_recording(), read_predictions(), start=start, now=now)
    rows.write_rows()
    _backdate_setup(start - _SET_UP_BEFORE)
    start_pods()
    _write_alerts(start)
    Heartbeat.unscoped.create(name=_END, at=now)
    return count_rows(rows)


def history_tick() -> int:
    """Write the measurements of the week, if any; return the number of rows, 0 if it was done before.

    They end where those of the running platform begin, some seconds after the week.
    """
    end = Heartbeat.unscoped.filter(name=_END).first()
    if end is None or Heartbeat.unscoped.filter(name=_MEASURED).exists():
        return 0
    until = _find_measured_end(end.at)
    if until is None or not _begin():
        return 0
    week = WeekMeasured.read_week(start=week_start(end.at), now=until)
    written = write_sums(week) + sum(write_gpus(week))
    join_present(week)
    Heartbeat.unscoped.get_or_create(name=_MEASURED, defaults={"at": clock.now()})
    log.info("the measurements of the simulated week are written", rows=written)
    return written


def _find_measured_end(week_end: datetime) -> datetime | None:
    """Return the time of the platform's first measurement; None while that may still come.

    It is stored, because a run that was interrupted has written measurements of its own.
    """
    first = find_first_tick(Cluster.unscoped.get(name="demo"), week_end)
    if first is None and clock.now() < week_end + _LONGEST_START:
        return None
    until = week_end if first is None else min(first, week_end + _LONGEST_START)
    stored, _ = Heartbeat.unscoped.get_or_create(name=_FIRST_TICK, defaults={"at": until})
    return stored.at


def _begin() -> bool:
    """Return whether this process may write, because no other one is writing."""
    now = clock.now()
    _, new = Heartbeat.unscoped.get_or_create(name=_BEGUN, defaults={"at": now})
    given_up = Heartbeat.unscoped.filter(name=_BEGUN, at__lt=now - _GIVEN_UP_AFTER)
    return new or bool(given_up.update(at=now))


@contextmanager
def setup_in_past(now: datetime) -> Iterator[None]:
    """Set the creation time of audit records before the week, like that of the objects that they are about.

    It cannot be changed afterwards, because PostgreSQL refuses to change audit records.
    """
    created_at = week_start(now) - _SET_UP_BEFORE

    def set_time(*, instance: AuditRecord, **_: object) -> None:
        instance.created_at = created_at

    pre_save.connect(set_time, sender=AuditRecord)
    try:
        with with_own_creation_times(AuditRecord):
            yield
    finally:
        pre_save.disconnect(set_time, sender=AuditRecord)


def _backdate_setup(created_at: datetime) -> None:
    """Make tenants, quotas and nodes older than the week: a replay of the week reads the quotas that were
    valid then, and nodes must exist before jobs are scheduled to them.
    """
    Tenant.unscoped.filter(archived_at__isnull=True).update(created_at=created_at)
    QuotaRevision.unscoped.filter(cell__name="default").update(created_at=created_at)
    QuotaChange.unscoped.filter(revision__cell__name="default").update(created_at=created_at)
    NodeEvent.unscoped.filter(node__cluster__name="demo").update(at=created_at)
    people = [name for workspace in WORKSPACES for name in workspace.roles]
    User.objects.filter(username__in=[OPERATOR, *people]).update(date_joined=created_at)


def _write_alerts(start: datetime) -> None:
    """Write the alerts of the week: the outage, and XID errors of the GPU that has them in the demo too."""
    rules = {rule.metric: rule for rule in AlertRule.unscoped.filter(tenant=None)}
    cluster = Cluster.unscoped.get(name="demo")
    node, index = faults.XID
    device = Device.unscoped.get(node__cluster=cluster, node__name=node, index=index)
    about = {
        CLUSTER_UNREACHABLE: (str(cluster.pk), cluster.name, "/ops/overview"),
        "gpu.xid_errors": (device.uuid, f"{node}, GPU {index}", f"/ops/nodes/{node}"),
    }
    begun, ended = (start + moment for moment in OUTAGE)
    times = [(CLUSTER_UNREACHABLE, begun, ended, (ended - begun).total_seconds())]
    times += [("gpu.xid_errors", start + at, start + at + _XID_LASTED, 1.0) for at in _XID_AT]
    for metric, at, until, value in times:
        rule = rules.get(metric)
        if rule is not None:
            Alert.unscoped.create(**_alert_fields(rule, about[metric], cluster, at, until, value))


def _alert_fields(
    rule: AlertRule,
    about: tuple[str, str, str],
    cluster: Cluster,
    at: datetime,
    until: datetime,
    value: float,
) -> dict[str, object]:
    subject, label, path = about
    return {
        "rule": rule, "cluster_id": cluster.pk, "rule_name": rule.name, "metric": rule.metric,
        "comparison": rule.comparison, "threshold": rule.threshold, "severity": rule.severity,
        "subject": subject, "label": label, "path": path, "value": value, "state": AlertState.RESOLVED,
        "started_at": at, "fired_at": at + timedelta(seconds=rule.hold_s), "resolved_at": until,
    }  # fmt: skip
