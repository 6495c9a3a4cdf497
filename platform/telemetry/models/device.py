"""Processes seen on GPUs, and events of GPUs."""

from __future__ import annotations

from typing import ClassVar, Self

from django.db import models

from clusters.gpu.batches import EventKind


class GpuProcess(models.Model):
    """A process that an agent saw on a GPU, from `first_seen_ms` to `last_seen_ms`.

    The id is derived from node, device, process id, name and container, so that the process is found again
    without a look-up. Without an allocation it belongs to no job of the platform. `allocation_id` to
    `workspace_id` are plain columns, as in `Channel`.
    """

    id = models.UUIDField(primary_key=True)
    cluster_id = models.UUIDField()
    node_id = models.UUIDField()
    device_id = models.UUIDField()
    pid = models.BigIntegerField()
    name = models.CharField(max_length=128)
    pod_uid = models.CharField(max_length=64, blank=True)
    container_id = models.CharField(max_length=64, blank=True)
    allocation_id = models.UUIDField(null=True)
    job_id = models.UUIDField(null=True)
    workspace_id = models.UUIDField(null=True)
    first_seen_ms = models.BigIntegerField()
    last_seen_ms = models.BigIntegerField()

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        indexes: ClassVar = [
            models.Index(fields=["node_id", "last_seen_ms"], name="process_of_node"),
            models.Index(fields=["last_seen_ms"], name="process_last_seen"),
        ]

    def __str__(self) -> str:
        return f"{self.pid} {self.name}"


class GpuEvent(models.Model):
    """An event of a GPU, or of all GPUs of a node if `device_uuid` is empty.

    `code` is that of an XID error and -1 for other kinds.
    """

    id = models.BigAutoField(primary_key=True)
    cluster_id = models.UUIDField()
    node_id = models.UUIDField()
    device_uuid = models.CharField(max_length=80, blank=True)
    kind = models.CharField(max_length=20, choices=[(kind.value, kind.value) for kind in EventKind])
    code = models.IntegerField()
    at_ms = models.BigIntegerField()

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["node_id", "at_ms", "device_uuid", "kind", "code"], name="gpu_event_once"
            )
        ]
        indexes: ClassVar = [models.Index(fields=["at_ms"], name="gpu_event_at")]

    def __str__(self) -> str:
        return f"{self.kind} {self.code}"
