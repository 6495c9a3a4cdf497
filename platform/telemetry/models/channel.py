"""What is measured: one row per cluster, node, card, and per pod's hold on a card.

Numbers arrive by the thousand every ten seconds, so their rows carry one small key instead of seven
ids; everything else about them stands here once. The ids are plain columns without foreign keys:
a chart of last week must not vanish, nor keep anything alive, because a job or a node was deleted.
"""

from __future__ import annotations

from typing import ClassVar, Self

from django.db import models
from django.db.models import Q


class Scope(models.TextChoices):
    CLUSTER = "cluster", "Cluster"
    NODE = "node", "Node"
    CARD = "card", "Card"
    SLICE = "slice", "Slice"


class Channel(models.Model):
    """One thing with a series.

    A card that moves to another node gets a new channel, so the old node keeps its history. A slice is
    one allocation's hold on one card, whole cards included.
    """

    id = models.BigAutoField(primary_key=True)
    scope = models.CharField(max_length=7, choices=Scope.choices)
    cluster_id = models.UUIDField()
    node_id = models.UUIDField(null=True)
    device_id = models.UUIDField(null=True)
    allocation_id = models.UUIDField(null=True)
    task_id = models.UUIDField(null=True)
    job_id = models.UUIDField(null=True)
    workspace_id = models.UUIDField(null=True)
    user_id = models.UUIDField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        # The conditions are IS NULL and not `scope = …`: a planner can prove the former for a query with
        # bound parameters, so the partial indexes serve reads as well.
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster_id"], condition=Q(node_id__isnull=True), name="channel_once_per_cluster"
            ),
            models.UniqueConstraint(
                fields=["node_id"], condition=Q(device_id__isnull=True), name="channel_once_per_node"
            ),
            models.UniqueConstraint(
                fields=["node_id", "device_id"],
                condition=Q(allocation_id__isnull=True),
                name="channel_once_per_card",
            ),
            models.UniqueConstraint(fields=["allocation_id", "device_id"], name="channel_once_per_slice"),
            models.CheckConstraint(
                condition=Q(
                    scope="cluster", node_id__isnull=True, device_id__isnull=True, allocation_id__isnull=True
                )
                | Q(scope="node", node_id__isnull=False, device_id__isnull=True, allocation_id__isnull=True)
                | Q(scope="card", node_id__isnull=False, device_id__isnull=False, allocation_id__isnull=True)
                | Q(
                    scope="slice", node_id__isnull=False, device_id__isnull=False, allocation_id__isnull=False
                ),
                name="channel_scope_matches_ids",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["cluster_id"], condition=Q(allocation_id__isnull=True), name="channel_cluster"
            ),
            models.Index(fields=["device_id"], name="channel_card"),
            models.Index(fields=["job_id"], name="channel_job"),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.id}"
