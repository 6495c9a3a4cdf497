"""Nodes and their cards.

Granted amounts are stored on the row of their node or card, under a CHECK: the database itself refuses a
second holder, even if a worker decided on outdated data.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from clusters.gpu.nvidia import VENDOR
from clusters.models.cluster import Cluster, Flavor, GpuMode
from foundation.models import BaseModel


class Node(BaseModel):
    """A machine. CPU in millicores, memory in MiB; `*_granted` are sums over live allocations.

    `*_foreign` is what pods of other owners hold, `*_standing` the part of it that permanent pods of the node
    hold. `pods` is how many pods it takes, None for any number; those of other owners count as well.
    `cards_unplaced` counts cards that other owners hold although every card of the node was allocated here.
    `facts_version` is raised with every change of the facts that the engine reads of the node and its cards,
    except for granted amounts; see `clusters.services.node_marks`.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="nodes")
    flavor = models.ForeignKey(Flavor, on_delete=models.SET_NULL, null=True, blank=True, related_name="nodes")
    name = models.CharField(max_length=253)
    labels = models.JSONField(default=dict, blank=True)
    taints = models.JSONField(default=list, blank=True)
    zone = models.CharField(max_length=63, blank=True, default="")
    rack = models.CharField(max_length=63, blank=True, default="")
    ready = models.BooleanField(default=True)
    cordoned = models.BooleanField(default=False)
    # Its cluster is closed, for instance because another platform manages it: no new task is placed on it.
    closed = models.BooleanField(default=False, db_default=False)
    present = models.BooleanField(default=True)
    not_ready_since = models.DateTimeField(null=True, blank=True)
    pressure = models.JSONField(default=list, db_default=models.Value([], models.JSONField()), blank=True)
    # For a node that is lost repeatedly: how often in a row, when last, and until when it gets no new task.
    flaps = models.PositiveSmallIntegerField(default=0, db_default=0)
    lost_at = models.DateTimeField(null=True, blank=True)
    held_until = models.DateTimeField(null=True, blank=True)
    cpu_millicores = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    cpu_granted = models.PositiveIntegerField(default=0)
    memory_granted = models.PositiveIntegerField(default=0)
    cpu_foreign = models.PositiveIntegerField(default=0, db_default=0)
    memory_foreign = models.PositiveIntegerField(default=0, db_default=0)
    cpu_standing = models.PositiveIntegerField(default=0, db_default=0)
    memory_standing = models.PositiveIntegerField(default=0, db_default=0)
    pods = models.PositiveIntegerField(null=True, blank=True)
    pods_foreign = models.PositiveIntegerField(default=0, db_default=0)
    pods_standing = models.PositiveIntegerField(default=0, db_default=0)
    cards_unplaced = models.PositiveIntegerField(default=0, db_default=0)
    observed_at = models.DateTimeField(null=True, blank=True)
    facts_version = models.PositiveBigIntegerField(default=0, db_default=0)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="node_name_once_per_cluster"),
        ]

    def __str__(self) -> str:
        return self.name


class Device(BaseModel):
    """One card. Capacity is physical times the over-commit factor; sums of grants never exceed it.

    `*_foreign` is what pods of other owners hold of it, as the cluster reports it: no limit applies to it.
    `hardware_uuid` is the GPU's own UUID from measurements, if `uuid` is a name by index.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="devices")
    uuid = models.CharField(max_length=80, unique=True)
    hardware_uuid = models.CharField(max_length=80, blank=True, default="", db_default="")
    index = models.PositiveSmallIntegerField()
    model = models.CharField(max_length=80)
    memory_mib = models.PositiveIntegerField()
    mode = models.CharField(max_length=10, choices=GpuMode.choices, default=GpuMode.WHOLE)
    profile = models.CharField(max_length=20, blank=True, default="", db_default="")  # of a MIG instance
    healthy = models.BooleanField(default=True)
    broken_since = models.DateTimeField(null=True, blank=True)
    cores_capacity = models.PositiveIntegerField(default=100)
    memory_capacity = models.PositiveIntegerField()
    cores_granted = models.PositiveIntegerField(default=0)
    memory_granted = models.PositiveIntegerField(default=0)
    holders = models.PositiveIntegerField(default=0)
    cores_foreign = models.PositiveIntegerField(default=0, db_default=0)
    memory_foreign = models.PositiveIntegerField(default=0, db_default=0)
    foreign_holders = models.PositiveIntegerField(default=0, db_default=0)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(cores_granted__gte=0) & Q(cores_granted__lte=F("cores_capacity")),
                name="device_cores_within_card",
            ),
            models.CheckConstraint(
                condition=Q(memory_granted__gte=0) & Q(memory_granted__lte=F("memory_capacity")),
                name="device_memory_within_card",
            ),
            models.CheckConstraint(condition=Q(holders__gte=0), name="device_holders_not_negative"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["node"], condition=Q(foreign_holders__gt=0), name="device_foreign"),
        ]

    def __str__(self) -> str:
        return self.uuid

    @property
    def vendor(self) -> str:
        """The vendor of the GPU: the platform requests GPUs of one vendor only."""
        return VENDOR

    @property
    def gpu_uuid(self) -> str:
        """The UUID by which the driver names the GPU, if it is known."""
        return self.hardware_uuid or self.uuid


class NodeEvent(models.Model):
    """One line of a node's timeline. The key is monotonic."""

    id = models.BigAutoField(primary_key=True)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    code = models.CharField(max_length=40)
    numbers = models.JSONField(default=dict, blank=True)

    unscoped: ClassVar[models.Manager[NodeEvent]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        indexes: ClassVar = [
            models.Index(fields=["node", "-id"], name="node_event_newest"),
            models.Index(fields=["at"], name="node_event_time"),
        ]

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.code}"


class ForeignOrigin(models.TextChoices):
    """The origin of a foreign pod: it does not name the platform, names another installation, or names
    this one, whose database does not know of it.
    """

    OTHER = "other", _("Not managed by the platform")
    INSTALLATION = "installation", _("Other installation")
    UNKNOWN = "unknown", _("Not in this database")


class ForeignPod(BaseModel):
    """A pod that holds capacity of a node without a live allocation in this database, as the cluster reports
    it.

    It is only counted and never changed. `cards` and `shares` as in `BoundPod` of the backends' contract, a
    share as uuid, cores and MiB. The node is stored by name, because pods and nodes are reported separately.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="foreign_pods")
    node_name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64)
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    owner = models.CharField(max_length=300, blank=True, default="")
    origin = models.CharField(
        max_length=12,
        choices=ForeignOrigin.choices,
        default=ForeignOrigin.OTHER,
        db_default=ForeignOrigin.OTHER.value,
    )
    # The job and the attempt in the labels of a pod of the platform's kind.
    job = models.CharField(max_length=63, blank=True, default="", db_default="", db_index=True)
    attempt = models.PositiveIntegerField(default=0, db_default=0)
    cpu_millicores = models.PositiveBigIntegerField(default=0)
    memory_mib = models.PositiveBigIntegerField(default=0)
    cards = models.JSONField(default=dict, blank=True)
    shares = models.JSONField(default=list, blank=True)
    standing = models.BooleanField(default=False)
    leaving = models.BooleanField(default=False)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "uid"], name="foreign_pod_uid_once_per_cluster"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["cluster", "node_name"], name="foreign_pod_node"),
        ]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
