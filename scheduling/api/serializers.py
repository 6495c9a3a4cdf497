"""Wire format of jobs, their events and tasks. Times are RFC 3339; CPU in millicores, memory in MiB."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduling.api.job_file import JobFileSerializer
from scheduling.job_file import to_mapping
from scheduling.models import DecisionKind, Job, JobKind, JobState, ResizeState, TaskState
from scheduling.selectors.job import JobRow, job_cards, job_position, job_row, job_tasks_asked
from tenants.api.bodies import StrictSerializer
from tenants.api.schema import ProblemSerializer

_REASON: Final = "Why it waits, or what keeps it from starting or from going; null while nothing does."


class HelpSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    numbers = serializers.DictField(required=False)


class ReasonSerializer(serializers.Serializer[Any]):
    """Why a job waits: a stable code, the numbers behind it, and what would help."""

    code = serializers.CharField()
    message = serializers.CharField(required=False)
    numbers = serializers.DictField()
    help = HelpSerializer(many=True)
    since = serializers.DateTimeField(allow_null=True)


def reason_of(job: Job | JobRow) -> dict[str, Any] | None:
    """Why a job waits, as `ReasonSerializer` describes it."""
    if not job.reason:
        return None
    return {
        "code": job.reason,
        "numbers": job.reason_numbers,
        "help": job.reason_help,
        "since": _moment(job.reason_at),
    }


def _moment(at: datetime | None) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at else None


class JobSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=JobKind.choices)
    state = serializers.ChoiceField(choices=JobState.choices)
    reason = serializers.SerializerMethodField(help_text=_REASON)
    workspace = serializers.CharField(source="workspace.slug")
    queue = serializers.CharField(source="queue.name")
    priority_class = serializers.CharField(source="priority_class.name")
    preemptible = serializers.BooleanField()
    submitted_by = serializers.CharField(source="submitted_by.username")
    cards = serializers.SerializerMethodField(help_text="Asked for by all tasks together.")
    tasks = serializers.SerializerMethodField()
    attempt = serializers.IntegerField(source="attempt_number")
    end_reason = serializers.CharField()
    submitted_at = serializers.DateTimeField()
    admitted_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(ReasonSerializer(allow_null=True))
    def get_reason(self, job: Job) -> dict[str, Any] | None:
        return reason_of(job)

    def get_cards(self, job: Job) -> int:
        return job_cards(job)

    def get_tasks(self, job: Job) -> int:
        return job_tasks_asked(job)

    def to_representation(self, instance: Job) -> dict[str, Any]:
        return listed(job_row(instance))


def listed(row: JobRow) -> dict[str, Any]:
    """A row of a list as `JobSerializer` describes it, whose fields take ten times as long to be asked."""
    return {
        "id": str(row.id),
        "name": row.name,
        "kind": row.kind,
        "state": row.state,
        "reason": reason_of(row),
        "workspace": row.workspace,
        "queue": row.queue,
        "priority_class": row.priority_class,
        "preemptible": row.preemptible,
        "submitted_by": row.submitted_by,
        "cards": row.cards,
        "tasks": row.tasks,
        "attempt": row.attempt,
        "end_reason": row.end_reason,
        "submitted_at": _moment(row.submitted_at),
        "admitted_at": _moment(row.admitted_at),
        "started_at": _moment(row.started_at),
        "finished_at": _moment(row.finished_at),
    }


class FilledSerializer(serializers.Serializer[Any]):
    """A field that the job file left open and a default of the workspace's policy decided."""

    field = serializers.CharField()
    value = serializers.JSONField()


class SubmittedSerializer(JobSerializer):
    defaults = FilledSerializer(many=True)


class PositionSerializer(serializers.Serializer[Any]):
    """Where a queued job stands. What is ahead is counted, never named."""

    position_in_local_queue = serializers.IntegerField(source="position", help_text="From 0.")
    waiting = serializers.IntegerField()
    cards_ahead = serializers.IntegerField()


class JobDetailSerializer(JobSerializer):
    position = serializers.SerializerMethodField(help_text="null while it is not queued.")
    spec = serializers.SerializerMethodField(help_text="Can be submitted again as it is.")

    @extend_schema_field(PositionSerializer(allow_null=True))
    def get_position(self, job: Job) -> Any:
        position = job_position(job=job)
        return PositionSerializer(position).data if position else None

    @extend_schema_field(JobFileSerializer)
    def get_spec(self, job: Job) -> dict[str, Any]:
        return to_mapping(job)

    def to_representation(self, instance: Job) -> dict[str, Any]:
        own = {"position": self.get_position(instance), "spec": self.get_spec(instance)}
        return super().to_representation(instance) | own


class DryRunSerializer(serializers.Serializer[Any]):
    """What a submission would do. It would be accepted; whether and when it starts is not said."""

    dry_run = serializers.BooleanField()
    name = serializers.CharField()
    queue = serializers.CharField()
    priority_class = serializers.CharField()
    tasks = serializers.IntegerField()
    min_run_s = serializers.IntegerField(help_text="As capped.")
    demand = serializers.DictField(child=serializers.IntegerField(), help_text="Per resource, in its unit.")
    defaults = FilledSerializer(many=True)


class EventSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    code = serializers.CharField()
    actor = serializers.CharField()
    numbers = serializers.DictField()


class TaskDeviceSerializer(serializers.Serializer[Any]):
    uuid = serializers.CharField(source="device.uuid")
    index = serializers.IntegerField(source="device.index")
    model = serializers.CharField(source="device.model")
    cores = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    exclusive = serializers.BooleanField()


class TaskAllocationSerializer(serializers.Serializer[Any]):
    attempt = serializers.IntegerField(source="attempt.number")
    node = serializers.CharField(source="node.name")
    cluster = serializers.CharField(source="node.cluster.name")
    flavor = serializers.CharField(source="flavor.name")
    namespace = serializers.CharField()
    pod = serializers.CharField(source="pod_name")
    cpu_millicores = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    released_at = serializers.DateTimeField(allow_null=True)


class TaskSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="task.id")
    role = serializers.CharField(source="task.role.name")
    index = serializers.IntegerField(source="task.index")
    state = serializers.ChoiceField(source="task.state", choices=TaskState.choices)
    exit_code = serializers.IntegerField(source="task.exit_code", allow_null=True)
    message = serializers.CharField(source="task.message")
    started_at = serializers.DateTimeField(source="task.started_at", allow_null=True)
    finished_at = serializers.DateTimeField(source="task.finished_at", allow_null=True)
    allocation = TaskAllocationSerializer(allow_null=True)
    devices = TaskDeviceSerializer(many=True, source="slices")


class ResizeSerializer(serializers.Serializer[Any]):
    """A change of the memory that a running task has of each of its cards, in MiB."""

    id = serializers.UUIDField()
    role = serializers.CharField(source="allocation.task.role.name")
    index = serializers.IntegerField(source="allocation.task.index")
    from_mib = serializers.IntegerField()
    to_mib = serializers.IntegerField()
    state = serializers.ChoiceField(
        choices=ResizeState.choices,
        help_text="`taking_back`: it was not confirmed in time, and what is not confirmed is not done.",
    )
    code = serializers.CharField(help_text="Why it was refused.")
    message = serializers.CharField()
    asked_by = serializers.CharField()
    asked_at = serializers.DateTimeField(source="created_at")
    ended_at = serializers.DateTimeField(allow_null=True)


class ResizeRequestSerializer(StrictSerializer):
    """Which task, and how much memory each of its cards is to have, with its unit as in a job file."""

    role = serializers.CharField(max_length=63, default="main")
    index = serializers.IntegerField(min_value=0, max_value=2**31 - 1, default=0)
    memory = serializers.CharField(max_length=20, help_text="For example `20480Mi` or `20Gi`.")


class NodeHoldSerializer(serializers.Serializer[Any]):
    """One live allocation on a node."""

    workspace = serializers.CharField(source="attempt.job.workspace.slug")
    job = serializers.CharField(source="attempt.job.name")
    job_id = serializers.UUIDField(source="attempt.job_id")
    role = serializers.CharField(source="task.role.name")
    index = serializers.IntegerField(source="task.index")
    submitted_by = serializers.CharField(source="attempt.job.submitted_by.username")
    pod = serializers.CharField(source="pod_name")
    cpu_millicores = serializers.IntegerField()
    memory_mib = serializers.IntegerField()


class DeviceHoldSerializer(serializers.Serializer[Any]):
    """One live hold on a card."""

    workspace = serializers.CharField(source="allocation.attempt.job.workspace.slug")
    job = serializers.CharField(source="allocation.attempt.job.name")
    job_id = serializers.UUIDField(source="allocation.attempt.job_id")
    role = serializers.CharField(source="allocation.task.role.name")
    index = serializers.IntegerField(source="allocation.task.index")
    submitted_by = serializers.CharField(source="allocation.attempt.job.submitted_by.username")
    cores = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    exclusive = serializers.BooleanField()


class DecisionSerializer(serializers.Serializer[Any]):
    """What one cycle decided. For whom the job gave way is not told."""

    at = serializers.DateTimeField(source="created_at")
    cycle = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=DecisionKind.choices)
    code = serializers.CharField()


class ExplanationSerializer(serializers.Serializer[Any]):
    """Where a job stands. `reason.help` says what would help."""

    state = serializers.ChoiceField(source="job.state", choices=JobState.choices)
    reason = serializers.SerializerMethodField(help_text=_REASON)
    position = serializers.SerializerMethodField(help_text="null while it is not queued.")
    promised_until = serializers.DateTimeField(
        allow_null=True, help_text="Until when a place is kept that others have yet to leave."
    )
    cause = serializers.DictField(
        allow_null=True,
        help_text="Why it gave back what it held the last time: `rule`, and `pod`, `exit_code`, `reason` or"
        " `signal`, and `message` as far as the cluster told them. null for a job that never did.",
    )
    decisions = DecisionSerializer(many=True, help_text="The latest, newest first.")

    @extend_schema_field(ReasonSerializer(allow_null=True))
    def get_reason(self, explanation: Any) -> dict[str, Any] | None:
        return reason_of(explanation["job"])

    @extend_schema_field(PositionSerializer(allow_null=True))
    def get_position(self, explanation: Any) -> Any:
        position = job_position(job=explanation["job"])
        return PositionSerializer(position).data if position else None


class PrioritySerializer(StrictSerializer):
    priority_class = serializers.CharField(max_length=63)


class CloneSerializer(StrictSerializer):
    """What the copy has of its own; everything else is as in the original."""

    name = serializers.CharField(required=False, max_length=63, help_text="Made when absent.")
    queue = serializers.CharField(required=False, max_length=63)
    priority_class = serializers.CharField(required=False, max_length=63)


class BatchSerializer(StrictSerializer):
    action = serializers.ChoiceField(choices=["cancel", "suspend", "resume", "priority"])
    jobs = serializers.ListField(
        child=serializers.CharField(max_length=63), min_length=1, max_length=200, help_text="Ids or names."
    )
    priority_class = serializers.CharField(
        required=False, max_length=63, help_text="For `priority`, and only there."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        if (attrs["action"] == "priority") != ("priority_class" in attrs):
            message = _("belongs to the action priority, and to no other")
            raise serializers.ValidationError({"priority_class": message}, code="mismatch")
        return attrs


class BatchItemSerializer(serializers.Serializer[Any]):
    """What became of one job: `job` when it succeeded, `problem` when not."""

    ref = serializers.CharField()
    succeeded = serializers.BooleanField()
    job = JobSerializer(allow_null=True)
    problem = ProblemSerializer(allow_null=True)


class BatchResultSerializer(serializers.Serializer[Any]):
    items = BatchItemSerializer(many=True)
    succeeded = serializers.IntegerField()
    failed = serializers.IntegerField()
