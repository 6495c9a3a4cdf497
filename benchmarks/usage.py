"""`allotment bench usage`: monthly reports over a year of jobs, on SQLite.

The installation is written into its own database: ended runs of a hundred thousand jobs of a thousand
tenants, and their measurements per quarter of an hour.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import numpy as np

from benchmarks.support.report import FigureRow, Report, read_limits

if TYPE_CHECKING:
    from telemetry.usage.report import UsageReport

_YEAR: Final = 2026
_DAY_MS: Final = 86_400_000
_BATCH: Final = 2000
_TIMES: Final = 5


def run() -> Report:
    """Measure reports of one month."""
    bounds, begun = read_limits("usage"), time.monotonic()
    size = {name: bounds[name] for name in ("jobs", "tenants", "months")}
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"ALLOTMENT_HOME": home, "DJANGO_SETTINGS_MODULE": "allotment.settings.embedded"}
        import django  # noqa: PLC0415 (after the settings are named)
        from django.core.management import call_command  # noqa: PLC0415 (as above)

        django.setup()
        call_command("migrate", "--no-input", verbosity=0)
        viewer = _fill(size)
        rows = list(_measure(viewer, bounds, Path(home)))
    seconds = time.monotonic() - begun
    return Report(name="usage", size=size, rows=rows, seconds=seconds, rate=size["jobs"] / seconds)


def _measure(viewer: Any, bounds: dict[str, Any], home: Path) -> Iterator[FigureRow]:
    from telemetry.models import MeasuredUse  # noqa: PLC0415 (Django is set up by now)
    from telemetry.usage.export import csv_file, xlsx_file  # noqa: PLC0415 (as above)
    from telemetry.usage.grouping import GroupBy  # noqa: PLC0415 (as above)
    from telemetry.usage.periods import month_period  # noqa: PLC0415 (as above)
    from telemetry.usage.report import usage_report  # noqa: PLC0415 (as above)
    from tenants.models import Tenant  # noqa: PLC0415 (as above)

    now = datetime(_YEAR + 1, 1, 1, tzinfo=UTC)
    period = month_period(date(_YEAR, 6, 1), ZoneInfo("Asia/Kolkata"))

    def measure_report(group_by: GroupBy, tenant: Tenant | None = None) -> UsageReport:
        return usage_report(viewer, period, group_by=group_by, now=now, tenant=tenant)

    one = Tenant.unscoped.get(slug="team-1")
    for what, group_by, tenant in (
        ("all tenants", GroupBy.TENANT, None),
        ("all jobs", GroupBy.JOB, None),
        ("one tenant by user", GroupBy.USER, one),
    ):
        limit = bounds["report_s"] if tenant is None else bounds["tenant_s"]
        found = measure_report(group_by, tenant)
        took = _least(lambda by=group_by, of=tenant: measure_report(by, of))  # type: ignore[misc]
        yield FigureRow(f"month of {what}, s", took, limit, {"rows": len(found.rows)})
    jobs = measure_report(GroupBy.JOB)
    yield FigureRow("CSV of all jobs, s", _least(lambda: csv_file(jobs)))
    yield FigureRow("XLSX of all jobs, s", _least(lambda: xlsx_file(jobs)))
    mib = sum(file.stat().st_size for file in home.rglob("*") if file.is_file()) / 2**20
    yield FigureRow("database, MiB", mib, None, {"job_days": MeasuredUse.unscoped.count()})


def _least(act: Callable[[], object]) -> float:
    """Return the minimum of a few runs, which other load affects least."""
    times = []
    for _ in range(_TIMES):
        begun = time.perf_counter()
        act()
        times.append(time.perf_counter() - begun)
    return min(times)


def _fill(size: dict[str, int]) -> Any:
    """Write tenants, users, a pool with two prices, and a year of ended runs; return a user who may see all
    of them.
    """
    from clusters.models import Cell, Cluster, Flavor  # noqa: PLC0415 (Django is set up by now)
    from scheduling.models import UsageInterval  # noqa: PLC0415 (as above)
    from telemetry.models import MeasuredUse, Price  # noqa: PLC0415 (as above)
    from tenants.models import User  # noqa: PLC0415 (as above)

    dice = random.Random(1)
    root = _tenant(None, "root")
    teams = [_tenant(root, f"team-{n}") for n in range(size["tenants"])]
    users = [User.objects.create(username=f"user-{n}") for n in range(100)]
    cluster = Cluster.unscoped.create(name="bench", cell=Cell.unscoped.create(name="bench"))
    flavor = Flavor.unscoped.create(cluster=cluster, name="a100", card_memory_mib=40_960)
    for month in (1, 6):
        at = datetime(_YEAR, month, 15, tzinfo=UTC)
        Price.unscoped.create(flavor=flavor, effective_at=at, gpu_hour=month)
    start = int(datetime(_YEAR, 1, 1, tzinfo=UTC).timestamp() * 1000)
    span = size["months"] * 30 * _DAY_MS
    queues = [uuid.uuid4() for _ in teams]
    intervals, measured = [], []
    for n in range(size["jobs"]):
        team = dice.randrange(len(teams))
        begin = start + dice.randrange(span)
        end = begin + int(min(dice.expovariate(1 / 4.0), 96.0) * 3_600_000) + 1000
        job, cores = uuid.uuid4(), 100 * dice.choice((1, 1, 2, 4, 8))
        intervals.append(
            UsageInterval(
                workspace_id=teams[team].pk, queue_id=queues[team], user_id=dice.choice(users).pk, job_id=job,
                job_name=f"job-{n}", attempt_id=uuid.uuid4(), flavor_id=flavor.pk, sliced=False,
                begin_ms=begin, end_ms=end, cores=cores, billed=cores, borrowed=dice.choice((0, 50)), lost=0,
            )
        )  # fmt: skip
        for day in range(begin // _DAY_MS, end // _DAY_MS + 1):
            held = _held(day, begin, end, cores)
            measured.append(
                MeasuredUse(
                    workspace_id=teams[team].pk, job_id=job, flavor_id=flavor.pk, day=day,
                    measured=held.tobytes(), used=(held // 2).tobytes(),
                )
            )  # fmt: skip
        if len(intervals) == _BATCH:
            UsageInterval.unscoped.bulk_create(intervals)
            MeasuredUse.unscoped.bulk_create(measured, batch_size=_BATCH)
            intervals, measured = [], []
    UsageInterval.unscoped.bulk_create(intervals)
    MeasuredUse.unscoped.bulk_create(measured, batch_size=_BATCH)
    return _operator(root)


def _tenant(parent: Any, slug: str) -> Any:
    """Create the root, or a workspace below it."""
    from tenants.models import Tenant, TenantKind  # noqa: PLC0415 (Django is set up by now)

    kind = TenantKind.WORKSPACE if parent else TenantKind.FOLDER
    tenant = Tenant(name=slug, slug=slug, kind=kind, parent=parent)
    tenant.path = f"{parent.path if parent else '/'}{tenant.pk}/"
    tenant.save(force_insert=True)
    return tenant


def _held(day: int, begin: int, end: int, cores: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the core milliseconds held in each quarter of an hour of a day."""
    starts = day * _DAY_MS + np.arange(96, dtype=np.int64) * 900_000
    lengths = np.minimum(starts + 900_000, end) - np.maximum(starts, begin)
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = (np.maximum(lengths, 0) * cores).astype("<i8")
    return found


def _operator(root: Any) -> Any:
    """Create a user who may see the jobs of all tenants."""
    from tenants.models import Member, Role, User  # noqa: PLC0415 (Django is set up by now)

    user = User.objects.create(username="operator")
    Member.unscoped.create(user=user, tenant=root, role=Role.VIEWER)
    return user
