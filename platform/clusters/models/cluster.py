"""Cells, clusters and their flavors."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from foundation.models import BaseModel, Leased


class Cell(BaseModel, Leased):
    """One quota tree, its clusters, one engine loop: the unit of scale."""

    name = models.SlugField(max_length=63, unique=True)
    cycle_number = models.PositiveBigIntegerField(default=0)
    last_cycle_at = models.DateTimeField(null=True, blank=True)
    inventory_version = models.PositiveBigIntegerField(default=0)
    quota_version = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return self.name


class BackendKind(models.TextChoices):
    SIMULATED = "simulated", "Simulated"
    KUBERNETES = "kubernetes", "Kubernetes"


class ClusterHealth(models.TextChoices):
    UNKNOWN = "unknown", "Unknown"
    HEALTHY = "healthy", "Healthy"
    UNREACHABLE = "unreachable", "Unreachable"


class Cluster(BaseModel, Leased):
    """A cluster and what was last heard of it."""

    cell = models.ForeignKey(Cell, on_delete=models.PROTECT, related_name="clusters")
    name = models.SlugField(max_length=63, unique=True)
    backend = models.CharField(max_length=20, choices=BackendKind.choices)
    connection = models.JSONField(default=dict, blank=True)
    health = models.CharField(max_length=20, choices=ClusterHealth.choices, default=ClusterHealth.UNKNOWN)
    health_message = models.TextField(blank=True, default="")
    cursor = models.TextField(blank=True, default="")
    observed_at = models.DateTimeField(null=True, blank=True)
    listed_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class GpuMode(models.TextChoices):
    NONE = "none", "No GPU"
    WHOLE = "whole", "Whole card"
    SLICE = "slice", "Slice"
    MIG = "mig", "MIG"


class PlacementPolicy(models.TextChoices):
    COMPACT = "compact", "Compact"
    SPREAD = "spread", "Spread"


class Flavor(BaseModel):
    """A pool of nodes with the same card model and mode, chosen by a node selector."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="flavors")
    name = models.SlugField(max_length=63)
    card_model = models.CharField(max_length=80, blank=True, default="")
    card_memory_mib = models.PositiveIntegerField(default=0)
    gpu_mode = models.CharField(max_length=10, choices=GpuMode.choices, default=GpuMode.WHOLE)
    node_selector = models.JSONField(default=dict, blank=True)
    taints = models.JSONField(default=list, blank=True)
    tolerations = models.JSONField(default=list, blank=True)
    placement = models.CharField(
        max_length=10, choices=PlacementPolicy.choices, default=PlacementPolicy.COMPACT
    )

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="flavor_name_once_per_cluster")
        ]

    def __str__(self) -> str:
        return self.name
