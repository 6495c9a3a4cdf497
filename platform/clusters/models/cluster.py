"""Cells, clusters and their flavors."""

from __future__ import annotations

from typing import ClassVar, Final

from django.db import models
from django.utils.translation import gettext_lazy as _

from foundation.models import BaseModel, Leased, Versioned


class Sharing(models.TextChoices):
    """The rule by which unused quota of tenants is shared, as in Kueue."""

    FAIR = "fair", "By share"
    CLASSICAL = "classical", "By priority and age"


class Cell(BaseModel, Leased, Versioned):
    """One quota tree, its clusters, one engine loop: the unit of scale."""

    name = models.SlugField(max_length=63, unique=True)
    # Fair: the tenant with the lowest dominant share borrows first. Classical: priority, then submission.
    sharing = models.CharField(
        max_length=10, choices=Sharing.choices, default=Sharing.FAIR, db_default=Sharing.FAIR
    )
    cycle_number = models.PositiveBigIntegerField(default=0)
    last_cycle_at = models.DateTimeField(null=True, blank=True)
    inventory_version = models.PositiveBigIntegerField(default=0)
    quota_version = models.PositiveBigIntegerField(default=0)
    # How much of its GPU time preemption threw away lately, in millionths.
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
"""Clusters with an engine of their own: what it admits is followed here, and never decided."""


class ClusterHealth(models.TextChoices):
    UNKNOWN = "unknown", "Unknown"
    HEALTHY = "healthy", "Healthy"
    UNREACHABLE = "unreachable", "Unreachable"
    DISOWNED = "disowned", "Run by another platform"


class Cluster(BaseModel, Leased, Versioned):
    """A cluster and what was last heard of it."""

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
    # Of the pods of others: when they were last applied, and listed. The cursor is that of the release
    # before, which followed them apart from our own.
    foreign_cursor = models.TextField(blank=True, default="", db_default="")
    foreign_at = models.DateTimeField(null=True, blank=True)
    foreign_listed_at = models.DateTimeField(null=True, blank=True)

    # Which cluster it is, whatever its address; none for one that has not said, or that is simulated.
    uid = models.CharField(max_length=64, unique=True, null=True, blank=True)
    # What stands in the cluster's owner object since this database last wrote it, what is about to stand
    # there, and when it was last confirmed. See `clusters.services.ownership`.
    owner_token = models.CharField(max_length=64, blank=True, default="", db_default="")
    owner_next = models.CharField(max_length=64, blank=True, default="", db_default="")
    owner_at = models.DateTimeField(null=True, blank=True)
    # When its closed nodes may be used again and pods made, once what runs there was read after that; none
    # while nothing is waited for.
    opens_at = models.DateTimeField(null=True, blank=True)
    # The permissions that the platform's account lacks in the cluster, null while they are not known, and
    # when they were last read.
    missing_permissions = models.JSONField(null=True, blank=True, default=None)
    permissions_at = models.DateTimeField(null=True, blank=True)
    # Of what the engine of the cluster's own says, where it has one.
    delegate_cursor = models.TextField(blank=True, default="", db_default="")

    def __str__(self) -> str:
        return self.name


class GpuMode(models.TextChoices):
    NONE = "none", "No GPU"
    WHOLE = "whole", "Whole card"
    SLICE = "slice", "Slice"
    MIG = "mig", "MIG"


class PlacementPolicy(models.TextChoices):
    """The policies of the engine by name: how it chooses among the nodes that take a task."""

    DEFAULT = "default", "Default"
    COMPACT = "compact", "Compact"
    SPREAD = "spread", "Spread"
    AFFINITY = "affinity", "Affinity"
    TOPOLOGY = "topology", "Topology"
    BALANCE = "balance", "Balance"

    @property
    def help(self) -> str:
        """The effect of the policy, in one sentence of the reader's language."""
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
        """The placement policy; the default one in the place of a policy that is not offered any more."""
        offered = self.placement in PlacementPolicy.values
        return PlacementPolicy(self.placement) if offered else PlacementPolicy.DEFAULT
