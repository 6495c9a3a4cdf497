"""Exporters and Prometheus servers that the platform reads, and the results of reading them."""

from __future__ import annotations

from typing import ClassVar, Self

from django.db import models
from django.utils.translation import gettext_lazy as _

from clusters.models import Cluster
from foundation.models import BaseModel, Versioned


class SourceKind(models.TextChoices):
    """The program at the address. `prometheus` has scraped any of the others."""

    PROMETHEUS = "prometheus", _("Prometheus server")
    DCGM = "dcgm", "dcgm-exporter"
    HAMI_MONITOR = "hami-monitor", _("HAMi vGPUmonitor")
    HAMI_SCHEDULER = "hami-scheduler", _("HAMi scheduler")
    VOLCANO_MONITOR = "volcano-monitor", _("Volcano vGPU monitor")
    VOLCANO_SCHEDULER = "volcano-scheduler", _("Volcano scheduler")


class TelemetrySource(BaseModel, Versioned):
    """One exporter or Prometheus server that is read for measurements of a cluster.

    `address` may contain `{node}`, which is replaced by each node with GPUs. `matchers` are labels that
    series of a Prometheus server must have, for a server that several clusters share. `secret` is sealed;
    with a `user` it is a password, else a bearer token. `history`: charts of the cluster are also read from
    this server.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="telemetry_sources")
    name = models.SlugField(max_length=63)
    kind = models.CharField(max_length=20, choices=SourceKind.choices)
    address = models.CharField(max_length=500)
    every_s = models.PositiveIntegerField(default=15)
    enabled = models.BooleanField(default=True)
    matchers = models.JSONField(default=dict, blank=True)
    user = models.CharField(max_length=100, blank=True, default="")
    secret = models.TextField(blank=True, default="")
    authority = models.TextField(blank=True, default="")
    history = models.BooleanField(default=False)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="source_name_once_per_cluster"),
        ]

    def __str__(self) -> str:
        return self.name


class SourceStatus(models.Model):
    """The result of reading a source: times, the last failure, and how much was read.

    `failed_since` is set while it fails. `samples` and `values` are of the last answer, `refused` counts
    invalid samples. `unknown` names GPUs in the answer that no node of the cluster has.
    """

    source = models.OneToOneField(
        TelemetrySource, on_delete=models.CASCADE, primary_key=True, related_name="status"
    )
    attempted_at = models.DateTimeField(null=True, blank=True)
    answered_at = models.DateTimeField(null=True, blank=True)
    failed_since = models.DateTimeField(null=True, blank=True)
    problem = models.CharField(max_length=30, blank=True, default="")
    detail = models.CharField(max_length=200, blank=True, default="")
    endpoints = models.PositiveIntegerField(default=0)
    endpoints_failed = models.PositiveIntegerField(default=0)
    samples = models.PositiveIntegerField(default=0)
    values = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0)
    unknown = models.JSONField(default=list, blank=True)

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"

    def __str__(self) -> str:
        return f"{self.source_id} {self.problem or 'ok'}"


class SourceNode(models.Model):
    """The last samples of a source from one node: their time, the number of GPUs, and the measures.

    `said` lists `level.measure` by the origin of the value; `xids` the last XID code of GPUs that had an
    error.
    """

    id = models.BigAutoField(primary_key=True)
    source = models.ForeignKey(TelemetrySource, on_delete=models.CASCADE, related_name="nodes")
    node = models.CharField(max_length=253)
    at_ms = models.BigIntegerField()
    devices = models.PositiveIntegerField(default=0)
    values = models.PositiveIntegerField(default=0)
    said = models.JSONField(default=dict, blank=True)
    xids = models.JSONField(default=dict, blank=True)

    unscoped: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["source", "node"], name="source_node_once"),
        ]

    def __str__(self) -> str:
        return f"{self.source_id} on {self.node}"
