"""Operators' requests to cordon, drain and uncordon nodes."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from clusters.models.node import Node
from foundation.models import BaseModel

REASON_LENGTH = 500


class NodeCordon(BaseModel):
    """An operator's request to cordon or uncordon a node, and its state.

    At most one row of a node is open, that is, has no `ended_at`. An applied cordon stays open as the
    explanation of the node's state, until the node is uncordoned by any client, leaves the cluster, or gets
    another request. A cordon by another client of the cluster has no row.

    `schedulable` is the wanted state, `applied_at` when the cluster confirmed it. `drain`: jobs are evicted
    from the node once it is cordoned; `drained_at`: the last of them was gone. `was_cordoned`: the node was
    cordoned before, so a refusal does not open it. `refusal` is the cluster's message.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="cordons")
    schedulable = models.BooleanField()
    drain = models.BooleanField(default=False)
    was_cordoned = models.BooleanField(default=False)
    reason = models.CharField(max_length=REASON_LENGTH, blank=True, default="")
    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    applied_at = models.DateTimeField(null=True, blank=True)
    drained_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    refusal = models.TextField(blank=True, default="")

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["node"], condition=Q(ended_at__isnull=True), name="node_cordon_open_once"
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["node", "-id"], name="node_cordon_newest")]

    def __str__(self) -> str:
        return f"{self.node_id} {'uncordon' if self.schedulable else 'cordon'}"

    @property
    def is_draining(self) -> bool:
        """Return whether jobs are still being evicted from the node."""
        return self.drain and self.drained_at is None and self.ended_at is None

    @property
    def is_pending(self) -> bool:
        """Return whether the cluster has not confirmed the request yet."""
        return self.applied_at is None and self.ended_at is None
