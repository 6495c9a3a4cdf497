"""Measures the evaluation of many alert rules on one metric with many subjects."""

from __future__ import annotations

import time
import uuid
from datetime import datetime
from typing import Final

from alerts.evaluation.evaluate import evaluate_rules
from alerts.metrics.base import AlertMetric, Observation, Unit
from alerts.metrics.catalogue import BY_NAME
from alerts.models import Alert, AlertRule
from foundation.core import clock
from tenants.models import Tenant, TenantKind

_METRIC: Final = "bench.load"
_ROUNDS: Final = 3


def _observations(tenants: list[Tenant], subjects: int) -> list[Observation]:
    return [
        Observation(
            subject=f"subject-{number}",
            label=f"subject {number}",
            value=float(number * 7_919 % subjects),
            tenant_id=tenants[number % len(tenants)].pk,
            tenant_path=tenants[number % len(tenants)].path,
        )
        for number in range(subjects)
    ]


def _tenants(count: int) -> list[Tenant]:
    root = uuid.uuid4()
    made = [Tenant(id=root, slug="bench", name="Bench", kind=TenantKind.FOLDER, path=f"/{root}/")]
    for number in range(count):
        pk = uuid.uuid4()
        made.append(
            Tenant(
                id=pk, slug=f"bench-{number}", name=f"Bench {number}", kind=TenantKind.WORKSPACE,
                parent=made[0], path=f"/{root}/{pk}/",
            )
        )  # fmt: skip
    Tenant.unscoped.bulk_create(made[:1])
    Tenant.unscoped.bulk_create(made[1:])
    return made[1:]


def evaluation_s(rules: int, subjects: int) -> float:
    """Return the seconds of one evaluation: half of the rules cover everything, half one tenant each.

    It is the median of three. Two subjects meet one rule in ten, none meets the others. The rows are not
    deleted.
    """
    tenants = _tenants(rules // 2)
    found = _observations(tenants, subjects)

    def read_rules(now: datetime) -> list[Observation]:
        return found

    metric = AlertMetric(_METRIC, "Load", "", Unit.COUNT, read_rules, suggested=0, for_tenants=True)
    AlertRule.unscoped.bulk_create(
        AlertRule(
            name=f"rule-{number}", metric=_METRIC, threshold=subjects - (2.5 if number % 20 == 0 else 0.5),
            tenant=tenants[number // 2] if number % 2 else None,
        )
        for number in range(2 * (rules // 2))
    )  # fmt: skip
    BY_NAME[_METRIC] = metric
    taken = []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        evaluate_rules(clock.now())
        taken.append(time.perf_counter() - begun)
    if Alert.unscoped.count() < rules // 20:
        raise RuntimeError("the rules found nothing")
    return sorted(taken)[len(taken) // 2]
