"""Queues: the places where jobs wait, and their scheduling rules."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from clusters.models import Cell, Flavor
from foundation.models import BaseModel, Versioned
from quotas.models.quota import QuotaNode
from tenants.models import Tenant


class Strategy(models.TextChoices):
    BEST_EFFORT = "best-effort-fifo", "Best effort"
    STRICT = "strict-fifo", "Strict first in, first out"


class StopPolicy(models.TextChoices):
    NONE = "none", "Open"
    HOLD = "hold", "On hold"
    HOLD_AND_DRAIN = "hold-and-drain", "On hold, draining"


class AllocationMode(models.TextChoices):
    DYNAMIC = "dynamic", "Dynamic"
    STATIC = "static", "Static"


class PreemptWithin(models.TextChoices):
    NEVER = "never", "Never"
    LOWER_PRIORITY = "lower-priority", "Lower priority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "lower-or-newer-equal-priority", "Lower, or equal and newer"


class PreemptOthers(models.TextChoices):
    NEVER = "never", "Never"
    LOWER_PRIORITY = "lower-priority", "Lower priority"
    ANY = "any", "Any"


class WhenCan(models.TextChoices):
    MAY_STOP_SEARCH = "may-stop-search", "Take it"
    TRY_NEXT_FLAVOR = "try-next-flavor", "Try the next flavor"


class Preference(models.TextChoices):
    BORROWING = "borrowing-over-preemption", "Borrow rather than preempt"
    PREEMPTION = "preemption-over-borrowing", "Preempt rather than borrow"


class Queue(BaseModel, Versioned):
    """A leaf of the quota tree. Presets are combinations of its settings, not a setting of their own.

    With `preemption` off no job is preempted for its jobs, whatever the other rules say. `reclaim` is the
    rule for jobs of other queues above their nominal; `while_borrowing` is the rule for preemption in order
    to borrow, of jobs not above `max_priority` (None: any priority). `when_can_*` and `preference` say when
    the search over the ordered flavors ends. With `backfill` jobs behind the first job that does not fit
    start only if they do not delay it; with `user_shares` jobs of users who used less lately come first. A
    deleted queue stays as a row with `closed_at`, because its jobs and the history of its quota refer to it.
    """

    cell = models.ForeignKey(Cell, on_delete=models.PROTECT, related_name="queues")
    workspace = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="queues")
    node = models.OneToOneField(QuotaNode, on_delete=models.PROTECT, related_name="queue")
    name = models.SlugField(max_length=63)
    strategy = models.CharField(max_length=20, choices=Strategy.choices, default=Strategy.BEST_EFFORT)
    stop_policy = models.CharField(max_length=20, choices=StopPolicy.choices, default=StopPolicy.NONE)
    allocation_mode = models.CharField(
        max_length=10, choices=AllocationMode.choices, default=AllocationMode.DYNAMIC
    )
    preemption = models.BooleanField(default=True)
    within_queue = models.CharField(
        max_length=30, choices=PreemptWithin.choices, default=PreemptWithin.LOWER_PRIORITY
    )
    reclaim = models.CharField(max_length=20, choices=PreemptOthers.choices, default=PreemptOthers.ANY)
    while_borrowing = models.CharField(
        max_length=20, choices=PreemptOthers.choices, default=PreemptOthers.NEVER
    )
    max_priority = models.IntegerField(null=True, blank=True)
    when_can_borrow = models.CharField(
        max_length=20, choices=WhenCan.choices, default=WhenCan.MAY_STOP_SEARCH
    )
    when_can_preempt = models.CharField(
        max_length=20, choices=WhenCan.choices, default=WhenCan.TRY_NEXT_FLAVOR
    )
    preference = models.CharField(max_length=30, choices=Preference.choices, default=Preference.BORROWING)
    backfill = models.BooleanField(default=True)
    user_shares = models.BooleanField(default=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    flavors: models.ManyToManyField[Flavor, QueueFlavor] = models.ManyToManyField(
        Flavor, through="QueueFlavor", related_name="queues"
    )

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["workspace", "name"],
                condition=Q(closed_at__isnull=True),
                name="queue_name_once_per_workspace",
            )
        ]

    def __str__(self) -> str:
        return self.name


class QueueFlavor(BaseModel):
    """A flavor that a queue may use, with its position in the order in which flavors are tried."""

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="queue_flavors")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, related_name="queue_flavors")
    position = models.PositiveSmallIntegerField()

    class Meta(BaseModel.Meta):
        ordering: ClassVar = ["position", "id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["queue", "flavor"], name="queue_flavor_once"),
            models.UniqueConstraint(fields=["queue", "position"], name="queue_flavor_order_total"),
        ]

    def __str__(self) -> str:
        return f"{self.queue} #{self.position} {self.flavor}"
