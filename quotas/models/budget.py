"""GPU-hours: the use per month, and how much a tenant may use."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from clusters.models import Flavor
from foundation.models import BaseModel, Versioned
from quotas.models.quota import QuotaNode
from tenants.models import Tenant

THRESHOLDS = (80, 95)


class BudgetAction(models.TextChoices):
    WARN = "warn", "Warn only"
    HOLD = "hold", "Start nothing new"
    PREEMPTIBLE_ONLY = "preemptible-only", "Start preemptible jobs only"
    STOP_PREEMPTIBLE = "stop-preemptible", "Start nothing new and stop preemptible jobs"


def _thresholds() -> list[int]:
    return list(THRESHOLDS)


class GpuUse(BaseModel):
    """The use of a flavor by a queue in a past month: percent points of a GPU x milliseconds."""

    node = models.ForeignKey(QuotaNode, on_delete=models.CASCADE, related_name="gpu_use")
    flavor = models.ForeignKey(Flavor, on_delete=models.CASCADE, related_name="gpu_use")
    month = models.DateField()
    core_ms = models.BigIntegerField()

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["node", "flavor", "month"], name="gpu_use_once_per_month")
        ]

    def __str__(self) -> str:
        return f"{self.node} {self.flavor} {self.month:%Y-%m}"


class Budget(Versioned, BaseModel):
    """The GPU-hours that a tenant and all below it may use in each calendar month (UTC).

    Without a flavor, those of all flavors count together. One notification is sent in a month for each of
    `thresholds` (percent) and for 100 %; `notified_month` and `notified_percent` record the last one.
    `action` is what happens at 100 %.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="budgets")
    flavor = models.ForeignKey(
        Flavor, on_delete=models.CASCADE, null=True, blank=True, related_name="budgets"
    )
    gpu_hours = models.PositiveBigIntegerField()
    thresholds = models.JSONField(default=_thresholds)
    action = models.CharField(max_length=20, choices=BudgetAction.choices, default=BudgetAction.WARN)
    notified_month = models.DateField(null=True, blank=True, db_column="told_month")
    notified_percent = models.PositiveSmallIntegerField(default=0, db_column="told_percent")

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "flavor"], name="budget_once_per_flavor"),
            models.UniqueConstraint(
                fields=["tenant"], condition=Q(flavor__isnull=True), name="budget_once_for_all_flavors"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tenant} {self.flavor or '*'}: {self.gpu_hours} h"
