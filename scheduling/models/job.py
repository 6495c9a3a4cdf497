"""Jobs, their roles and their tasks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from django.conf import settings
from django.db import models
from django.db.models import Q

from foundation.core.reasons import Reason
from foundation.models import BaseModel, Versioned
from quotas.models import Queue
from tenants.models import Tenant


class JobKind(models.TextChoices):
    BATCH = "batch", "Batch"
    PYTORCH = "pytorch", "PyTorch"
    MPI = "mpi", "MPI"
    NOTEBOOK = "notebook", "Notebook"
    SERVICE = "service", "Service"


class JobState(models.TextChoices):
    SUBMITTED = "submitted", "Submitted"
    QUEUED = "queued", "Queued"
    SUSPENDED = "suspended", "Suspended"
    ADMITTED = "admitted", "Admitted"
    STARTING = "starting", "Starting"
    RUNNING = "running", "Running"
    EVICTING = "evicting", "Evicting"
    STOPPING = "stopping", "Stopping"
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


TERMINAL_STATES: Final = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)
# A suspended job waits for its user, not for the platform.
PENDING_STATES: Final = (JobState.SUBMITTED, JobState.QUEUED)
WAITING_STATES: Final = (*PENDING_STATES, JobState.SUSPENDED)
# Pages count a job as running from its admission on, and no longer while its pods are terminated.
RUNNING_STATES: Final = (JobState.ADMITTED, JobState.STARTING, JobState.RUNNING)
# States in which a job holds quota and devices.
HOLDING_STATES: Final = (*RUNNING_STATES, JobState.EVICTING, JobState.STOPPING)

# The end reasons of attempts that the job or its user ended: lifecycle rules for evictions do not apply.
OWN_END_REASONS: Final = ("TASK_FAILED", "USER", "RESTART")


class PriorityClass(BaseModel, Versioned):
    """A named priority that can be granted to tenants. New jobs can't use a retired class; existing jobs keep
    it."""

    name = models.SlugField(max_length=63, unique=True)
    value = models.IntegerField()
    description = models.CharField(max_length=200, blank=True, default="")
    retired_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.name} ({self.value})"


class Job(BaseModel, Versioned):
    """A job that a user submitted: its specification, its state, and the reason why it waits.

    `version` guards every change: a transition is one compare-and-set on it.
    """

    # Workspace, queue and priority class have no own index, because they are the first columns of indexes
    # below.
    workspace = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    name = models.CharField(max_length=63)
    kind = models.CharField(max_length=10, choices=JobKind.choices, default=JobKind.BATCH)
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.QUEUED)
    submitted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="jobs")
    priority_class = models.ForeignKey(
        PriorityClass, on_delete=models.PROTECT, related_name="jobs", db_index=False
    )
    priority = models.IntegerField(default=0)
    tags = models.JSONField(default=list, db_default=models.Value([], models.JSONField()), blank=True)
    preemptible = models.BooleanField(default=True)
    min_available = models.PositiveIntegerField()
    min_run_s = models.PositiveIntegerField(default=0)
    max_run_s = models.PositiveIntegerField(null=True, blank=True)
    checkpoint_interval_s = models.PositiveIntegerField(null=True, blank=True)
    placement = models.JSONField(default=dict, blank=True)
    lifecycle = models.JSONField(default=list, blank=True)
    environment = models.JSONField(default=dict, blank=True)
    volumes = models.JSONField(default=list, blank=True)
    runtime = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()), blank=True)
    simulate = models.JSONField(default=dict, blank=True)

    submitted_at = models.DateTimeField(db_index=True)
    order_at = models.DateTimeField(
        null=True, blank=True, help_text="its time in the queue's order, if it is another than its submission"
    )
    queued_at = models.DateTimeField(null=True, blank=True, help_text="last entry into the queue")
    admitted_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    deadline_at = models.DateTimeField(null=True, blank=True, help_text="start plus max_run_s")
    attempt_number = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    backoff_until = models.DateTimeField(null=True, blank=True)
    # The state after an eviction once every pod is confirmed gone, and the rule that evicted the job.
    after_eviction = models.CharField(max_length=10, blank=True, default="")
    end_reason = models.CharField(max_length=40, blank=True, default="")

    reason = models.CharField(max_length=30, blank=True, default=Reason.PENDING_EVALUATION)
    reason_numbers = models.JSONField(default=dict, blank=True)
    reason_help = models.JSONField(default=list, blank=True)
    reason_at = models.DateTimeField(null=True, blank=True)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["workspace", "name"],
                condition=~Q(state__in=TERMINAL_STATES),
                name="job_name_once_among_live",
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["state", "queue"]),
            # One index for each order and filter of a list, so that a page is read without sorting. The first
            # one ends with the name, so that names are searched without reading rows.
            models.Index(fields=["workspace", "-submitted_at", "-id", "name"], name="job_by_time"),
            models.Index(fields=["workspace", "state", "-submitted_at", "-id"], name="job_by_state_and_time"),
            models.Index(
                fields=["workspace", "submitted_by", "-submitted_at", "-id"], name="job_by_owner_and_time"
            ),
            models.Index(fields=["queue", "-submitted_at", "-id"], name="job_by_queue_and_time"),
            models.Index(
                fields=["priority_class", "workspace", "-submitted_at", "-id"], name="job_by_class_and_time"
            ),
            models.Index(fields=["workspace", "name", "id"], name="job_by_name"),
            models.Index(fields=["workspace", "priority", "id"], name="job_by_priority"),
            models.Index(fields=["workspace", "state", "id"], name="job_by_state"),
            # The volume claims of unfinished jobs are read every few seconds, and few jobs mount volumes.
            models.Index(
                fields=["queue"],
                condition=~Q(state__in=TERMINAL_STATES) & ~Q(volumes=[]),
                name="job_with_volumes",
            ),
            # It includes the columns by which lists of all workspaces filter, so that only their page is
            # read.
            models.Index(
                fields=["-submitted_at", "-id"],
                include=["workspace", "state"],
                name="job_by_time_anywhere",
            ),
            models.Index(fields=["name", "id"], name="job_by_name_anywhere"),
            models.Index(fields=["priority", "id"], name="job_by_priority_anywhere"),
        ]

    def __str__(self) -> str:
        return self.name

    def have_roles(self, roles: Sequence[JobRole]) -> None:
        """Set all roles of the job, in their order, as prefetched."""
        manager: Any = self.roles.all()
        manager._result_cache, manager._prefetch_done = list(roles), True
        for role in roles:
            role.job = self
        self._prefetched_objects_cache = {"roles": manager}

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL_STATES

    @property
    def is_waiting(self) -> bool:
        return self.state in WAITING_STATES

    @property
    def ordered_at(self) -> datetime:
        """The time by which the queue orders it: its submission, or that of the job it exchanged positions
        with."""
        return self.order_at or self.submitted_at

    @property
    def queued_since(self) -> datetime:
        """The time of the last entry into the queue: by submission, after an eviction, or when resumed."""
        return self.queued_at or self.submitted_at

    @property
    def holds(self) -> bool:
        """True if the job holds quota and devices."""
        return self.state in HOLDING_STATES


class GpuRequestMode(models.TextChoices):
    NONE = "none", "No GPU"
    WHOLE = "whole", "Whole card"
    SLICE = "slice", "Slice"
    MIG = "mig", "MIG instance"


class JobRole(BaseModel):
    """A group of equal tasks. Requests are per task; GPU cores and memory are per card."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="roles")
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=40)
    replicas = models.PositiveIntegerField()
    min_replicas = models.PositiveIntegerField()
    cpu_millicores = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    gpu_mode = models.CharField(max_length=10, choices=GpuRequestMode.choices)
    gpu_cards = models.PositiveSmallIntegerField(default=0)
    gpu_cores = models.PositiveSmallIntegerField(default=0)
    gpu_memory_mib = models.PositiveIntegerField(null=True, blank=True)
    gpu_memory_percent = models.PositiveSmallIntegerField(null=True, blank=True)
    gpu_models = models.JSONField(default=list, blank=True)
    gpu_profile = models.CharField(max_length=40, blank=True, default="")
    image = models.CharField(max_length=300, blank=True, default="")
    command = models.JSONField(default=list, blank=True)
    container = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()), blank=True)

    class Meta(BaseModel.Meta):
        ordering: ClassVar = ["position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["job", "name"], name="role_name_once_per_job"),
            models.CheckConstraint(
                condition=Q(min_replicas__gte=1) & Q(min_replicas__lte=models.F("replicas")),
                name="role_min_replicas_within_replicas",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["job"], condition=~Q(gpu_models=[]), name="role_with_models"),
        ]

    def __str__(self) -> str:
        return f"{self.job}/{self.name}"


class TaskState(models.TextChoices):
    WAITING = "waiting", "Waiting"
    BOUND = "bound", "Bound"
    STARTING = "starting", "Starting"
    RUNNING = "running", "Running"
    SUCCEEDED = "succeeded", "Succeeded"
    FAILED = "failed", "Failed"
    LEAVING = "leaving", "Leaving"
    REMOVED = "gone", "Gone"


class Task(BaseModel):
    """One replica of a role, with its index; each attempt has a new pod for it."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="tasks")
    role = models.ForeignKey(JobRole, on_delete=models.CASCADE, related_name="tasks")
    index = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=TaskState.choices, default=TaskState.WAITING)
    exit_code = models.IntegerField(null=True, blank=True)
    message = models.TextField(blank=True, default="")
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta(BaseModel.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["role", "index"], name="task_index_once_per_role")
        ]

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"
