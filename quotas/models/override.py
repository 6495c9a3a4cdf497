"""Temporary quota: a loan between tenants, or a reservation from a tenant above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q

from clusters.models import Cell, Flavor
from foundation.models import BaseModel, Versioned
from quotas.models.quota import RESOURCE_CHOICES, QuotaNode
from quotas.models.quota_change import QuotaRevision


class OverrideState(models.TextChoices):
    PLANNED = "planned", "Planned"
    ACTIVE = "active", "Active"
    ENDED = "ended", "Ended"
    CANCELLED = "cancelled", "Cancelled"
    MISSED = "missed", "Never started"


class Override(Versioned, BaseModel):
    """A loan of the lender's own nominal to the borrower from `starts_at` until `ends_at`.

    `problem` is the reason why it could not start yet. `ended_at` is the actual end; `returned` is the amount
    that returned by `<flavor> <resource>` where it was less than the amount lent.
    """

    cell = models.ForeignKey(Cell, on_delete=models.PROTECT, related_name="overrides")
    lender = models.ForeignKey(QuotaNode, on_delete=models.PROTECT, related_name="lent_out")
    borrower = models.ForeignKey(QuotaNode, on_delete=models.PROTECT, related_name="borrowed_in")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    state = models.CharField(max_length=10, choices=OverrideState.choices, default=OverrideState.PLANNED)
    reason = models.CharField(max_length=500, blank=True, default="")
    actor_id = models.UUIDField(null=True)
    actor_name = models.CharField(max_length=150)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.CharField(max_length=150, blank=True, default="")
    problem = models.CharField(max_length=1000, blank=True, default="")
    returned = models.JSONField(default=dict, blank=True)
    started_by = models.ForeignKey(
        QuotaRevision, on_delete=models.PROTECT, null=True, blank=True, related_name="starts"
    )
    returned_by = models.ForeignKey(
        QuotaRevision, on_delete=models.PROTECT, null=True, blank=True, related_name="returns"
    )

    class Meta(BaseModel.Meta):
        ordering: ClassVar = ["-starts_at", "-id"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="override_window_in_order"),
            models.CheckConstraint(condition=~Q(lender=F("borrower")), name="override_between_two"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["state", "ends_at"], name="override_due"),
            models.Index(fields=["cell", "state"], name="override_of_cell"),
        ]

    def __str__(self) -> str:
        return f"{self.lender} → {self.borrower}"

    def have_amounts(self, amounts: Sequence[OverrideAmount]) -> None:
        """Put all its amounts at hand as `prefetch_related` does."""
        manager: Any = self.amounts.all()
        manager._result_cache, manager._prefetch_done = list(amounts), True
        self._prefetched_objects_cache = {"amounts": manager}


class OverrideAmount(BaseModel):
    """The amount of one flavor and resource that an override moves.

    `started` is not read or written any more; processes of the release before may still write it.
    """

    override = models.ForeignKey(Override, on_delete=models.CASCADE, related_name="amounts")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, related_name="overrides")
    resource = models.CharField(max_length=20, choices=RESOURCE_CHOICES)
    amount = models.PositiveBigIntegerField()
    started = models.JSONField(null=True, blank=True)

    class Meta(BaseModel.Meta):
        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["override", "flavor", "resource"], name="override_amount_once"),
            models.CheckConstraint(condition=Q(amount__gt=0), name="override_amount_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.amount} {self.resource} of {self.flavor}"


class PassedQuota(BaseModel):
    """Lent quota that a decision moved on from `source` to `target`, its child or parent.

    It returns to `source` when `source` needs it for the end of a loan (`quotas.distribution.loans`).
    """

    source = models.ForeignKey(QuotaNode, on_delete=models.PROTECT, related_name="passed_on")
    target = models.ForeignKey(QuotaNode, on_delete=models.PROTECT, related_name="passed_in")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, related_name="passed_quota")
    resource = models.CharField(max_length=20, choices=RESOURCE_CHOICES)
    amount = models.PositiveBigIntegerField()

    class Meta(BaseModel.Meta):
        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["source", "target", "flavor", "resource"], name="passed_quota_once"
            ),
            models.CheckConstraint(condition=Q(amount__gt=0), name="passed_quota_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.amount} {self.resource} of {self.flavor}: {self.source} → {self.target}"
