"""The quota tree and the ledger."""

from __future__ import annotations

from datetime import date
from typing import ClassVar

from django.db import models
from django.db.models import Q

from clusters.models import Cell, Flavor
from foundation.core import clock
from foundation.core.months import month_of
from foundation.core.quantities import Resource
from foundation.models import BaseModel, Versioned
from tenants.models import Tenant

RESOURCE_CHOICES = [(resource.value, resource.value) for resource in Resource]


class QuotaNode(Versioned, BaseModel):
    """A point of a cell's tree: one per tenant, and one per queue below its workspace.

    Folders and workspaces act as cohorts; queues are the leaves that hold usage. `version` grows with every
    change of the node's limits. `limits_decided` is false for queues that an earlier release opened without
    limits, until an admin above sets how far they may borrow and lend: a missing limit of such a queue was
    not decided (`quotas.selectors.limits.workspace_limits`).
    """

    cell = models.ForeignKey(Cell, on_delete=models.PROTECT, related_name="quota_nodes")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="quota_nodes")
    parent = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="children"
    )
    is_queue = models.BooleanField(default=False)
    limits_decided = models.BooleanField(default=True, db_default=False, db_column="limits_stand")
    weight = models.PositiveIntegerField(default=1000, help_text="thousandths; 1000 is an even share")

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cell", "tenant"], condition=Q(is_queue=False), name="quota_node_once_per_tenant"
            ),
            models.UniqueConstraint(
                fields=["cell"], condition=Q(parent__isnull=True), name="quota_tree_has_one_root"
            ),
        ]

    def __str__(self) -> str:
        return f"{'queue of ' if self.is_queue else ''}{self.tenant}"


class Quota(BaseModel):
    """The quota of one node for one resource of one flavor, without what it distributed to its children.

    `own_nominal` None = unlimited. `borrowing_limit` / `lending_limit` None = no limit, 0 = nothing. The
    column of `own_nominal` has the name that processes of earlier releases read and write during an upgrade.
    """

    node = models.ForeignKey(QuotaNode, on_delete=models.CASCADE, related_name="quotas")
    flavor = models.ForeignKey(Flavor, on_delete=models.CASCADE, related_name="quotas")
    resource = models.CharField(max_length=20, choices=RESOURCE_CHOICES)
    own_nominal = models.PositiveBigIntegerField(null=True, blank=True, db_column="nominal")
    borrowing_limit = models.PositiveBigIntegerField(null=True, blank=True)
    lending_limit = models.PositiveBigIntegerField(null=True, blank=True)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["node", "flavor", "resource"], name="quota_once_per_resource")
        ]

    def __str__(self) -> str:
        return f"{self.node} {self.flavor} {self.resource}"


def _this_month() -> date:
    return month_of(clock.now())


class LedgerEntry(models.Model):
    """The quota that is reserved by the admitted jobs of one queue. Changed only by `quotas.services.ledger`.

    Compute is also counted over time: from the start of `month` until the moment t, `core_ms` + `reserved` x
    (t - start of the month) percent points x milliseconds were reserved. So a reservation needs no write
    while it lasts, and a change of `reserved` also changes `core_ms` in the same statement; `core_ms` may be
    below zero. The column of `reserved` has the name that processes of earlier releases read and write during
    an upgrade.
    """

    id = models.BigAutoField(primary_key=True)
    node = models.ForeignKey(QuotaNode, on_delete=models.PROTECT, related_name="ledger")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, related_name="ledger")
    resource = models.CharField(max_length=20, choices=RESOURCE_CHOICES)
    reserved = models.BigIntegerField(default=0, db_column="used")
    month = models.DateField(default=_this_month)
    core_ms = models.BigIntegerField(default=0)

    unscoped: ClassVar[models.Manager[LedgerEntry]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["node", "flavor", "resource"], name="ledger_once_per_resource"),
            models.CheckConstraint(condition=Q(reserved__gte=0), name="ledger_used_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.node} {self.flavor} {self.resource}: {self.reserved}"
