"""The history of quotas: one revision per save, one row per limit that it changed. Append-only."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from clusters.models import Cell, Flavor
from foundation.models import BaseModel
from quotas.models.quota import RESOURCE_CHOICES, QuotaNode


class QuotaChangeSource(models.TextChoices):
    EDIT = "edit", "Edited"
    REVERT = "revert", "Reverted"
    IMPORT = "import", "Imported"
    REQUEST = "request", "Request approved"
    LOAN = "loan", "Lent"
    LOAN_RETURNED = "loan-returned", "Loan returned"


class QuotaRevision(BaseModel):
    """A change of quotas: its author, time and reason. `reverts` names the revision that this one reverts.

    With `on_top` the quota was created rather than taken from the nodes above; the same holds for its revert.
    """

    cell = models.ForeignKey(Cell, on_delete=models.PROTECT, related_name="quota_revisions")
    actor_id = models.UUIDField(null=True)
    actor_name = models.CharField(max_length=150)
    reason = models.CharField(max_length=500, blank=True, default="")
    source = models.CharField(
        max_length=20, choices=QuotaChangeSource.choices, default=QuotaChangeSource.EDIT
    )
    on_top = models.BooleanField(default=False)
    reverts = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="reverted_by"
    )

    class Meta(BaseModel.Meta):
        ordering: ClassVar = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.actor_name}: {self.reason or self.source}"


class QuotaChange(BaseModel):
    """One limit of one node before and after. The nominal is that of the node with its children.

    None is unlimited. A node whose own nominal only gave quota to a child, or took it back, is not listed:
    its nominal did not change.
    """

    revision = models.ForeignKey(QuotaRevision, on_delete=models.CASCADE, related_name="changes")
    node = models.ForeignKey(QuotaNode, on_delete=models.CASCADE, related_name="changes")
    flavor = models.ForeignKey(Flavor, on_delete=models.CASCADE, related_name="quota_changes")
    resource = models.CharField(max_length=20, choices=RESOURCE_CHOICES)
    nominal_before = models.PositiveBigIntegerField(null=True)
    nominal_after = models.PositiveBigIntegerField(null=True)
    borrowing_before = models.PositiveBigIntegerField(null=True)
    borrowing_after = models.PositiveBigIntegerField(null=True)
    lending_before = models.PositiveBigIntegerField(null=True)
    lending_after = models.PositiveBigIntegerField(null=True)

    class Meta(BaseModel.Meta):
        indexes: ClassVar = [models.Index(fields=["node", "created_at"], name="quota_change_by_node")]

    def __str__(self) -> str:
        return f"{self.node} {self.flavor} {self.resource}: {self.nominal_before} → {self.nominal_after}"
