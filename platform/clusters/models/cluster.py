"""Cells, clusters and their flavors."""

from __future__ import annotations

from typing import ClassVar, Final

from django.db import models
from django.utils.translation import gettext_lazy as _

from foundation.models import BaseModel, Leased, Versioned


class Sharing(models.TextChoices):
    """The rule by which tenants share unused quota, as in Kueue."""

    FAIR = "fair", "By share"
    CLASSICAL = "classical", "By priority and age"


class Cell(BaseModel, Leased, Versioned):
    """One quota tree, its clusters, and one engine loop: the unit of scale."""

    name = models.SlugField(max_length=63, unique=True)
    # Fair: the tenant with the lowest dominant share borrows first. Classical: priority, then submission.
    sharing = models.CharField(
        max_length=10, choices=Sharing.choices, default=Sharing.FAIR, db_default=Sharing.FAIR
    )
    cycle_number = models.PositiveBigIntegerField(default=0)
    last_cycle_at = models.DateTimeField(null=True, blank=True)
    inventory_version = models.PositiveBigIntegerField(default=0)
    quota_version = models.PositiveBigIntegerField(default=0)
    # GPU time that preemption discarded lately as a share of all, in millionths.
    lost_ppm = models.PositiveIntegerField(default=0, db_default=0)
    # The mix of tasks that placement policies learn from, as the engine encodes it; empty at first.
    workload = models.JSONField(default=dict, db_default={}, blank=True)

    def __str__(self) -> str:
        return self.name


class BackendKind(models.TextChoices):
    SIMULATED = "simulated", "Simulated"
    KUBERNETES = "kubernetes", "Kubernetes"
    KUEUE = "kueue", "Kubernetes with Kueue"


ADMITS_ITSELF: Final = frozenset({BackendKind.KUEUE})
"""Clusters with their own admission engine: the platform follows its admissions and decides none."""


class ClusterHealth(models.TextChoices):
    UNKNOWN = "unknown", "Unknown"
    HEALTHY = "healthy", "Healthy"
    UNREACHABLE = "unreachable", "Unreachable"
    DISOWNED = "disowned", "Run by another platform"


class Cluster(BaseModel, Leased, Versioned):
    """A cluster and its last known state."""

    cell = models.ForeignKey(Cell, on_delete=models.PROTECT, related_name="clusters")
    name = models.SlugField(max_length=63, unique=True)
    backend = models.CharField(max_length=20, choices=BackendKind.choices)
    connection = models.JSONField(default=dict, blank=True)
    # Experimental: the memory of parts of cards may be changed while their pods run.
    live_resize = models.BooleanField(default=False, db_default=False)
    health = models.CharField(max_length=20, choices=ClusterHealth.choices, default=ClusterHealth.UNKNOWN)
    health_message = models.TextField(blank=True, default="")
    health_since = models.DateTimeField(null=True, blank=True)
    cursor = models.TextField(blank=True, default="")
    observed_at = models.DateTimeField(null=True, blank=True)
    listed_at = models.DateTimeField(null=True, blank=True)
    # When the pods of other owners were last applied, and listed. The cursor is that of the release before,
    # which followed them separately from the platform's own pods.
    foreign_cursor = models.TextField(blank=True, default="", db_default="")
    foreign_at = models.DateTimeField(null=True, blank=True)
    foreign_listed_at = models.DateTimeField(null=True, blank=True)

    # The uid of the cluster, whatever its address; empty if it is unknown, or for a simulated cluster.
    uid = models.CharField(max_length=64, unique=True, null=True, blank=True)
    # The token in the cluster's owner object since this database last wrote it, the token about to be
    # written, and when it was last confirmed. See `clusters.services.ownership`.
    owner_token = models.CharField(max_length=64, blank=True, default="", db_default="")
    owner_next = models.CharField(max_length=64, blank=True, default="", db_default="")
    owner_at = models.DateTimeField(null=True, blank=True)
    # When its closed nodes may be used again and pods created, after a later read of the cluster; null if
    # nothing is awaited.
    opens_at = models.DateTimeField(null=True, blank=True)
    # The permissions that the platform's account lacks in the cluster, null while they are not known, and
    # when they were last read.
    missing_permissions = models.JSONField(null=True, blank=True, default=None)
    permissions_at = models.DateTimeField(null=True, blank=True)
    # The state of the cluster's own admission engine, if it has one.
    delegate_cursor = models.TextField(blank=True, default="", db_default="")

    def __str__(self) -> str:
        return self.name


class GpuMode(models.TextChoices):
    NONE = "none", "No GPU"
    WHOLE = "whole", "Whole card"
    SLICE = "slice", "Slice"
    MIG = "mig", "MIG"


class PlacementPolicy(models.TextChoices):
    """The placement policies of the engine by name: how it chooses among the nodes that take a task."""

    DEFAULT = "default", "Default"
    COMPACT = "compact", "Compact"
    SPREAD = "spread", "Spread"
    AFFINITY = "affinity", "Affinity"
    TOPOLOGY = "topology", "Topology"
    BALANCE = "balance", "Balance"

    @property
    def help(self) -> str:
        """The effect of the policy, in one sentence in the reader's language."""
        return str(_PLACEMENT_HELP[self])


_PLACEMENT_HELP: Final = {
    PlacementPolicy.DEFAULT: _("Minimizes fragmentation for typical workloads (recommended)."),
    PlacementPolicy.COMPACT: _("Binpack: fills one node after the other."),
    PlacementPolicy.SPREAD: _("Spread: keeps the load of all nodes even."),
    PlacementPolicy.AFFINITY: _("Node preferences first, then binpack."),
    PlacementPolicy.TOPOLOGY: _("Topology first, then binpack."),
    PlacementPolicy.BALANCE: _("Balances CPU and GPU usage."),
}


class Flavor(BaseModel, Versioned):
    """A pool of nodes with the same card model and mode, chosen by a node selector.

    `cpu_per_gpu` (millicores) and `memory_per_gpu` (MiB) are the quota that goes with one GPU; null is the
    ratio of the pool's nodes.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="flavors")
    name = models.SlugField(max_length=63)
    card_model = models.CharField(max_length=80, blank=True, default="")
    card_memory_mib = models.PositiveIntegerField(default=0)
    gpu_mode = models.CharField(max_length=10, choices=GpuMode.choices, default=GpuMode.WHOLE)
    node_selector = models.JSONField(default=dict, blank=True)
    taints = models.JSONField(default=list, blank=True)
    tolerations = models.JSONField(default=list, blank=True)
    placement = models.CharField(
        max_length=10, choices=PlacementPolicy.choices, default=PlacementPolicy.DEFAULT
    )
    cpu_per_gpu = models.PositiveIntegerField(null=True, blank=True)
    memory_per_gpu = models.PositiveIntegerField(null=True, blank=True)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="flavor_name_once_per_cluster")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def placement_policy(self) -> PlacementPolicy:
        """The placement policy; the default one if the stored policy is no longer offered."""
        offered = self.placement in PlacementPolicy.values
        return PlacementPolicy(self.placement) if offered else PlacementPolicy.DEFAULT
