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

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()  # type: ignore[assignment]

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster_id"], condition=Q(scope="cluster"), name="channel_once_per_cluster"
            ),
            models.UniqueConstraint(
                fields=["node_id"], condition=Q(scope="node"), name="channel_once_per_node"
            ),
            models.UniqueConstraint(
                fields=["node_id", "device_id"], condition=Q(scope="card"), name="channel_once_per_card"
            ),
            models.UniqueConstraint(
                fields=["allocation_id", "device_id"],
                condition=Q(scope="slice"),
                name="channel_once_per_slice",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["cluster_id", "scope"], name="channel_cluster"),
            models.Index(fields=["device_id"], condition=Q(scope="slice"), name="channel_slice_card"),
            models.Index(fields=["job_id"], condition=Q(scope="slice"), name="channel_job"),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.id}"
