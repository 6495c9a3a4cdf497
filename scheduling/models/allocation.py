"""The resources of a running attempt, and the claim of a preemptor."""

from __future__ import annotations

from typing import ClassVar, Final

from django.db import models
from django.db.models import Q

from clusters.models import Device, Flavor, Node
from foundation.models import BaseModel
from scheduling.models.job import Job, Task

NO_GROWTH: Final = 32_767
"""For `Attempt.shrinks`: the attempt grows no more."""


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
    # Its pods may have something in common in the cluster: set before it is made, unset when it is gone.
    gathered_at = models.DateTimeField(null=True, blank=True)
    # When it last grew or shrank, and how often it has shrunk.
    scaled_at = models.DateTimeField(null=True, blank=True)
    shrinks = models.PositiveSmallIntegerField(default=0, db_default=0)
    # Set once the intervals of an ended attempt are written down.
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
    """A task attempt's hold on a node, with what it charges to the ledger.

    Live until `released_at`; it is released only when the pod is confirmed gone or its containers are
    observed terminated.
    """

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="allocations")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="allocations")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="allocations")
    flavor = models.ForeignKey(Flavor, on_delete=models.PROTECT, related_name="allocations")
    cpu_millicores = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    charge = models.JSONField(help_text="resource -> amount taken from the ledger")
    # When it was given to a job that ran already; without it, it was held since the attempt's admission.
    granted_at = models.DateTimeField(null=True, blank=True)
    # What was charged before: [[milliseconds since 1970 at which it ended, charge], …], oldest first.
    past_charges = models.JSONField(null=True, blank=True)
    # Raised with every change of what is held, so that what is kept of it elsewhere is known to be old.
    revision = models.PositiveIntegerField(default=0, db_default=0)
    namespace = models.CharField(max_length=63)
    pod_name = models.CharField(max_length=63)
    # While `ensured_at` is unset: the uid of a predecessor by the same name, which is gone.
    pod_uid = models.CharField(max_length=64, blank=True, default="")
    restarts = models.PositiveIntegerField(default=0)
    # The pod is being removed to be made again by the same name: the hold stays.
    restarting = models.BooleanField(default=False)
    # The same is done to all of its role, and the next pods wait for the last of the old ones to go.
    restarting_role = models.BooleanField(default=False, db_default=False)
    ensured_at = models.DateTimeField(null=True, blank=True)
    # How often its creation was asked for in vain since it was last made, and when it is asked for again.
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
        """The uid of the pod as it is now; empty while no answer has told it."""
        return self.pod_uid if self.ensured_at else ""


class DeviceSlice(BaseModel):
    """A part of one card held by an allocation; whole cards are held exclusively."""

    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="slices")
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="slices")
    cores = models.PositiveSmallIntegerField()
    memory_mib = models.PositiveIntegerField()
    # What the pod is to have while it is being resized; the greater of the two is held until it has it.
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
    """`ended`: the pod ended before it was known. While it is `taking_back` it was not confirmed in time."""

    ASKED = "asked", "Asked"
    TAKING_BACK = "taking_back", "Taking back"
    DONE = "done", "Done"
    REFUSED = "refused", "Refused"
    ENDED = "ended", "Ended"


class MemoryResize(BaseModel):
    """One change of the memory that a running task has of each of its cards, in MiB.

    Until the cluster has confirmed it, the greater amount is charged. `code` and `message` say why it was
    refused, `deadline_at` when it is given up if nothing is known.
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
        """Return the memory that the pod is to have at present."""
        return self.from_mib if self.state == ResizeState.TAKING_BACK else self.to_mib


class Claim(BaseModel):
    """Quota and devices that a preemptor was promised and its victims are still leaving."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="claim")
    content = models.JSONField(help_text="flavor, charge and placement as the engine decided them")
    expires_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"claim of {self.job}"
