"""The volume claims that unfinished jobs mount, as clusters have them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from clusters.models import Cluster
from foundation.models import BaseModel
from tenants.models import Tenant


class ClaimPhase(models.TextChoices):
    """The state of a claim.

    `unprovisioned`: pending, and its volume is created when a pod is placed. `static`, `class_unread` and
    `not_permitted`: pending, as in `Provisioning`. `unknown`: the platform's account may not list claims in
    the cluster.
    """

    BOUND = "bound", "Bound"
    PENDING = "pending", "Pending"
    UNPROVISIONED = "unprovisioned", "Created when a pod is placed"
    STATIC = "static", "Pending, volumes are created by hand"
    CLASS_UNREAD = "class_unread", "Pending, storage class not readable"
    NOT_PERMITTED = "not_permitted", "Pending, node selection not permitted"
    LOST = "lost", "Lost"
    MISSING = "missing", "Missing"
    DELETING = "deleting", "Deleting"
    UNKNOWN = "unknown", "Unknown"


class MountedClaim(BaseModel):
    """A volume claim in the namespace of a workspace, as its cluster had it at `read_at`.

    `terms` are the required node affinity of `volume`, as lists of expressions; none for a volume that every
    node can mount. `terms_at` is when they were read: None while the platform's account may not read volumes.
    Without a volume the terms are the nodes for which one can be created.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+", db_index=False)
    workspace = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=253)
    phase = models.CharField(max_length=20, choices=ClaimPhase.choices)
    volume = models.CharField(max_length=253, blank=True, default="")
    terms = models.JSONField(default=list, blank=True)
    terms_at = models.DateTimeField(null=True, blank=True)
    read_at = models.DateTimeField()

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "workspace", "name"], name="mounted_claim_once_per_cluster"
            ),
        ]

    def __str__(self) -> str:
        return self.name
