"""Node agents: their keys, and the last report of each."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from clusters.models import Node
from foundation.models import BaseModel


class AgentKey(BaseModel):
    """The key that authenticates the agent of one node; only its hash is stored."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="agent_keys")
    prefix = models.CharField(max_length=16, unique=True)
    secret_hash = models.CharField(max_length=64)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    # Created by an operator, and not in exchange for a token that the cluster confirmed.
    manual = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.prefix}…"


class NodeAgent(BaseModel):
    """The last report of the agent of a node.

    `devices` and `unsupported` as in the agent's report: facts of each GPU with its links to others, and the
    measures that a GPU does not support, by UUID. `devices_at` and `slices_at` are when the agent last
    measured a GPU of the node, and a slice of a known pod.
    """

    node = models.OneToOneField(Node, on_delete=models.CASCADE, related_name="agent")
    seen_at = models.DateTimeField()
    devices_at = models.DateTimeField(null=True, blank=True)
    slices_at = models.DateTimeField(null=True, blank=True)
    interval_ms = models.IntegerField(default=15_000)
    inventory_at = models.DateTimeField(null=True, blank=True)
    driver = models.CharField(max_length=80, blank=True, default="")
    nvml = models.CharField(max_length=80, blank=True, default="")
    cuda = models.CharField(max_length=20, blank=True, default="")
    devices = models.JSONField(default=list, blank=True)
    unsupported = models.JSONField(default=dict, blank=True)

    class Meta(BaseModel.Meta):
        indexes: ClassVar = [models.Index(fields=["seen_at"], name="node_agent_seen")]

    def __str__(self) -> str:
        return f"agent seen at {self.seen_at:%H:%M:%S}"
