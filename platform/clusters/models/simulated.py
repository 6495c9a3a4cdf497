"""Rows of the simulated cluster, which replaces an external system.

Only `clusters.backends.simulated` reads or writes them: the platform reads this state through the backend's
calls, as it would that of a real cluster. Times ending in `_ms` are milliseconds of
simulated time, which runs at its own speed; see `clusters.backends.simulated.timeline`.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from clusters.models.cluster import Cluster, GpuMode
from foundation.models import BaseModel


class SimulatedCluster(BaseModel):
    """The clock of one simulated cluster and the number of its latest change.

    `anchors` lists `[simulated ms, real ms since 1970, speed]` for every change of speed, oldest
    first. A cursor older than `pruned_to` may have missed a removal and gets a complete list.
    """

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="+")
    anchors = models.JSONField(default=list)
    last_change = models.PositiveBigIntegerField(default=0)
    pruned_to = models.PositiveBigIntegerField(default=0)
    pruned_at = models.DateTimeField(null=True, blank=True)
    reachable = models.BooleanField(default=True)

    def __str__(self) -> str:
        return f"simulation of {self.cluster_id}"


class SimulatedNode(BaseModel):
    """A machine. CPU in millicores, memory in MiB. `failed` nodes do not answer until they recover; silent
    nodes only deliver no measurements."""

    simulation = models.ForeignKey(SimulatedCluster, on_delete=models.CASCADE, related_name="nodes")
    name = models.CharField(max_length=253)
    labels = models.JSONField(default=dict, blank=True)
    taints = models.JSONField(default=list, blank=True)
    cpu_millicores = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    failed = models.BooleanField(default=False)
    cordoned = models.BooleanField(default=False)
    silent_until = models.DateTimeField(null=True, blank=True)
    change = models.PositiveBigIntegerField()
    changed_ms = models.BigIntegerField(default=0)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["simulation", "name"], name="simulated_node_name_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["simulation", "change"], name="simulated_node_change")]

    def __str__(self) -> str:
        return self.name


class SimulatedDevice(BaseModel):
    """One card, memory in MiB.

    `throttled`: it is too hot and runs with lower clocks. `stray_mib`: memory that a process without a pod
    uses on it. `unlimited`: the pod that has held a part of it for longest ignores its limits. `xid_code` and
    `xid_at`: its last XID error.
    """

    node = models.ForeignKey(SimulatedNode, on_delete=models.CASCADE, related_name="devices")
    uuid = models.CharField(max_length=80, unique=True)
    index = models.PositiveSmallIntegerField()
    model = models.CharField(max_length=80)
    memory_mib = models.PositiveIntegerField()
    mode = models.CharField(max_length=10, choices=GpuMode.choices, default=GpuMode.WHOLE)
    healthy = models.BooleanField(default=True)
    throttled = models.BooleanField(default=False, db_default=False)
    stray_mib = models.PositiveIntegerField(default=0, db_default=0)
    unlimited = models.BooleanField(default=False, db_default=False)
    xid_code = models.PositiveSmallIntegerField(null=True, blank=True)
    xid_at = models.DateTimeField(null=True, blank=True)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["node", "index"], name="simulated_device_index_once"),
        ]

    def __str__(self) -> str:
        return self.uuid


class SimulatedPhase(models.TextChoices):
    PENDING = "pending", "Pending"
    STARTING = "starting", "Starting"
    RUNNING = "running", "Running"
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"
    REMOVED = "gone", "Gone"


class SimulatedPod(BaseModel):
    """One pod, its specification, and when its next transition is due.

    `holds` is true while its containers hold cards, CPU and memory. `next_ms` is null if no transition is
    planned; `frozen_ms` stores it while the node is down. A deleted pod stays for a while as a tombstone, so
    that a late observer still sees its end. `leave_permille` is the part of the grace period that the pod
    uses; `exit_code` is the exit code that it will end with, `ended_code` the one that it ended with.
    """

    simulation = models.ForeignKey(SimulatedCluster, on_delete=models.CASCADE, related_name="pods")
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=36)
    node_name = models.CharField(max_length=253)
    cpu_millicores = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    devices = models.JSONField(default=list, blank=True)  # [[uuid, cores, MiB], …]
    labels = models.JSONField(default=dict, blank=True)
    image = models.CharField(max_length=500, blank=True, default="")
    command = models.JSONField(default=list, blank=True)
    start_ms = models.PositiveBigIntegerField()
    run_ms = models.PositiveBigIntegerField(null=True, blank=True)
    leave_permille = models.PositiveSmallIntegerField()
    utilisation = models.FloatField()
    exit_code = models.IntegerField(default=0)
    # The MiB that its slices will have, and when the node will have changed them; null if no change is due.
    resize_mib = models.PositiveIntegerField(null=True, blank=True)
    resize_ms = models.BigIntegerField(null=True, blank=True)

    phase = models.CharField(max_length=10, choices=SimulatedPhase.choices)
    holds = models.BooleanField(default=True)
    terminating = models.BooleanField(default=False)
    next_ms = models.BigIntegerField(null=True, blank=True)
    frozen_ms = models.BigIntegerField(null=True, blank=True)
    begun_ms = models.BigIntegerField()
    started_ms = models.BigIntegerField(null=True, blank=True)
    ended_ms = models.BigIntegerField(null=True, blank=True)
    changed_ms = models.BigIntegerField()
    change = models.PositiveBigIntegerField()
    ended_code = models.IntegerField(null=True, blank=True)
    reason = models.CharField(max_length=60, blank=True, default="")
    message = models.CharField(max_length=300, blank=True, default="")

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["simulation", "namespace", "name"],
                condition=~Q(phase="gone"),
                name="simulated_pod_name_once",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["simulation", "next_ms"], name="simulated_pod_due"),
            models.Index(fields=["simulation", "change"], name="simulated_pod_change"),
            models.Index(
                fields=["simulation", "node_name"], condition=Q(holds=True), name="simulated_pod_holder"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
