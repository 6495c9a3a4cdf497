"""The measured subjects: a row per cluster, workspace on it, node, card, pod's hold on a card, and process.

Thousands of readings arrive every ten seconds, so their rows carry one small key instead of seven ids; all
other facts of the subject are stored here once. The ids are plain columns without foreign keys: deleting a
job or a node must not delete a chart of last week, and a chart must not prevent the deletion.
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
    WORKSPACE = "workspace", "Workspace"
    PROCESS = "process", "Process"


def _matching_ids() -> Q:
    """Return the condition on the ids of a channel, by scope; other ids may be set or not."""
    ids = ("node_id", "device_id", "allocation_id", "process_id")
    has: dict[Scope, tuple[str, ...]] = {
        Scope.CLUSTER: (),
        Scope.WORKSPACE: (),
        Scope.NODE: ids[:1],
        Scope.CARD: ids[:2],
        Scope.SLICE: ids[:3],
        Scope.PROCESS: (*ids[:2], ids[3]),
    }
    found = Q()
    for scope, present in has.items():
        nulls = {f"{name}__isnull": name not in present for name in ids}
        if scope in (Scope.CLUSTER, Scope.WORKSPACE):
            nulls["workspace_id__isnull"] = scope == Scope.CLUSTER
        found |= Q(scope=scope.value, **nulls)
    return found


class Channel(models.Model):
    """One subject with a series of readings.

    A card that moves to another node gets a new channel, so the old node keeps its history. A slice is
    one allocation's hold on one card, whole cards included. A workspace's channel holds the sums over its
    slices on one cluster. A process belongs to a card; its pod is stored in `GpuProcess`.
    """

    id = models.BigAutoField(primary_key=True)
    scope = models.CharField(max_length=9, choices=Scope.choices)
    cluster_id = models.UUIDField()
    node_id = models.UUIDField(null=True)
    device_id = models.UUIDField(null=True)
    allocation_id = models.UUIDField(null=True)
    task_id = models.UUIDField(null=True)
    job_id = models.UUIDField(null=True)
    workspace_id = models.UUIDField(null=True)
    user_id = models.UUIDField(null=True)
    process_id = models.UUIDField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        # The conditions are IS NULL and not `scope = …`: a planner can prove the former for a query with
        # bound parameters, so the partial indexes serve reads as well.
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster_id"],
                condition=Q(node_id__isnull=True, workspace_id__isnull=True),
                name="channel_once_per_total",
            ),
            models.UniqueConstraint(
                fields=["cluster_id", "workspace_id"],
                condition=Q(node_id__isnull=True),
                name="channel_once_per_workspace",
            ),
            models.UniqueConstraint(
                fields=["node_id"], condition=Q(device_id__isnull=True), name="channel_once_per_node"
            ),
            models.UniqueConstraint(
                fields=["node_id", "device_id"],
                condition=Q(allocation_id__isnull=True, process_id__isnull=True),
                name="channel_once_per_device",
            ),
            models.UniqueConstraint(fields=["allocation_id", "device_id"], name="channel_once_per_slice"),
            models.UniqueConstraint(fields=["process_id"], name="channel_once_per_process"),
            models.CheckConstraint(condition=_matching_ids(), name="channel_ids_match_scope"),
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
