"""The resources of a running attempt, and the claim of a preemptor."""

from __future__ import annotations

from typing import ClassVar, Final

from django.db import models
from django.db.models import Q

from clusters.models import Device, Flavor, Node
from foundation.models import BaseModel
from scheduling.models.job import Job, Task

NO_GROWTH: Final = 32_767
"""The value of `Attempt.shrinks` of an attempt that does not grow again."""


class Attempt(BaseModel):
    """One run of a job between admission and its end."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    epoch = models.PositiveBigIntegerField()
    admitted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.CharField(max_length=40, blank=True, default="")
    borrowed = models.JSONField(default=dict, blank=True)
    # Set before the shared object of the gang's pods is created in the cluster, null after its removal.
    gathered_at = models.DateTimeField(null=True, blank=True)
    # When it last grew or shrank, and how often it has shrunk.
    scaled_at = models.DateTimeField(null=True, blank=True)
    shrinks = models.PositiveSmallIntegerField(default=0, db_default=0)
    # Set once the usage intervals of an ended attempt are written.
    metered_at = models.DateTimeField(null=True, blank=True)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "number"], name="attempt_number_once_per_job"),
            models.UniqueConstraint(
                fields=["job"], condition=Q(ended_at__isnull=True), name="attempt_one_live_per_job"
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["ended_at"], condition=Q(gathered_at__isnull=False), name="attempt_gathered"
            ),
            models.Index(fields=["end_reason", "ended_at"], name="attempt_by_end"),
            models.Index(
                fields=["ended_at"], condition=Q(metered_at__isnull=True), name="attempt_not_metered"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job} #{self.number}"


class Allocation(BaseModel):
    """The resources that a task of an attempt holds on a node, with their charge to the ledger.

    It is live until `released_at`; it is released only when the pod is confirmed gone or its containers are
    observed as terminated.
    """

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="allocations")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="allocations")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="allocations")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, related_name="allocations")
    cpu_millicores = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    charge = models.JSONField(help_text="resource -> amount taken from the ledger")
    # When it was added to a running job; null if it exists since the attempt's admission.
    granted_at = models.DateTimeField(null=True, blank=True)
    # Earlier charges: [[end in milliseconds since 1970, charge], …], oldest first.
    past_charges = models.JSONField(null=True, blank=True)
    # Incremented with every change of the held amounts, so that caches detect it.
    revision = models.PositiveIntegerField(default=0, db_default=0)
    namespace = models.CharField(max_length=63)
    pod_name = models.CharField(max_length=63)
    # While `ensured_at` is null: the uid of a removed predecessor with the same name.
    pod_uid = models.CharField(max_length=64, blank=True, default="")
    restarts = models.PositiveIntegerField(default=0)
    # The pod is being removed and is created again with the same name; the allocation stays.
    restarting = models.BooleanField(default=False)
    # All tasks of its role restart together; the new pods wait until the last old one is gone.
    restarting_role = models.BooleanField(default=False, db_default=False)
    ensured_at = models.DateTimeField(null=True, blank=True)
    # The number of failed creations since the pod was last created, and the time of the next try.
    ensure_failures = models.PositiveSmallIntegerField(default=0, db_default=0)
    ensure_after = models.DateTimeField(null=True, blank=True)
    removal_asked_at = models.DateTimeField(null=True, blank=True)
    removal_sent_at = models.DateTimeField(null=True, blank=True)
    removed_at = models.DateTimeField(null=True, blank=True)
    released_at = models.DateTimeField(null=True, blank=True)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["task"], condition=Q(released_at__isnull=True), name="allocation_one_live_per_task"
            ),
            models.UniqueConstraint(fields=["namespace", "pod_name"], name="allocation_pod_name_once"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["node"], condition=Q(released_at__isnull=True), name="allocation_live_node"),
            models.Index(
                fields=["created_at"], condition=Q(removed_at__isnull=True), name="allocation_not_removed"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task} on {self.node}"

    @property
    def known_uid(self) -> str:
        """The uid of the current pod; empty until the answer to its creation is recorded."""
        return self.pod_uid if self.ensured_at else ""


class DeviceSlice(BaseModel):
    """A part of one card held by an allocation; whole cards are held exclusively."""

    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="slices")
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="slices")
    cores = models.PositiveSmallIntegerField()
    memory_mib = models.PositiveIntegerField()
    # The wanted memory during a resize; until it is confirmed, the greater of the two is held.
    wanted_mib = models.PositiveIntegerField(null=True, blank=True)
    exclusive = models.BooleanField()
    released = models.BooleanField(default=False)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["device"],
                condition=Q(exclusive=True, released=False),
                name="device_one_exclusive_holder",
            ),
            models.UniqueConstraint(fields=["allocation", "device"], name="slice_once_per_card"),
        ]

    def __str__(self) -> str:
        return f"{self.cores} % of {self.device}"


class ResizeState(models.TextChoices):
    """The state of a resize. `ended`: the pod ended before the outcome was known. `taking_back`: it was not
    confirmed in time and is being undone."""

    ASKED = "asked", "Asked"
    TAKING_BACK = "taking_back", "Taking back"
    DONE = "done", "Done"
    REFUSED = "refused", "Refused"
    ENDED = "ended", "Ended"


class MemoryResize(BaseModel):
    """A change of the memory that a running task has of each of its cards, in MiB.

    Until the cluster has confirmed it, the greater amount is charged. `code` and `message` say why it was
    refused; at `deadline_at` an unconfirmed change is undone.
    """

    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="resizes")
    asked_by = models.CharField(max_length=150)
    from_mib = models.PositiveIntegerField()
    to_mib = models.PositiveIntegerField()
    state = models.CharField(max_length=12, choices=ResizeState.choices, default=ResizeState.ASKED)
    code = models.CharField(max_length=60, blank=True, default="")
    message = models.CharField(max_length=300, blank=True, default="")
    deadline_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["allocation"], condition=Q(ended_at__isnull=True), name="resize_one_live_per_task"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.from_mib} to {self.to_mib} MiB of {self.allocation}"

    @property
    def grows(self) -> bool:
        return self.to_mib > self.from_mib

    @property
    def wanted_mib(self) -> int:
        """Return the memory that the pod should have now."""
        return self.from_mib if self.state == ResizeState.TAKING_BACK else self.to_mib


class Claim(BaseModel):
    """Quota and devices that are reserved for a preemptor while its victims terminate."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="claim")
    content = models.JSONField(help_text="flavor, charge and placement as the engine decided them")
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"claim of {self.job}"
