"""The wire format of jobs, their events and tasks. Times are RFC 3339, CPU in millicores, memory in MiB."""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from foundation.core.quantities import Resource
from foundation.core.reasons import Reason
from scheduling.api.jobs.job_file import JobFileSerializer
from scheduling.job_file import to_mapping
from scheduling.models import DecisionKind, IdleAction, Job, JobKind, JobState, ResizeState, TaskState
from scheduling.selectors.allocations.idle import find_idle_stretch
from scheduling.selectors.jobs.job import (
    JobRow,
    job_cards,
    job_deleted_at,
    job_position,
    job_row,
    job_tasks_asked,
)
from tenants.api.requests.bodies import StrictSerializer
from tenants.api.responses.pages import format_timestamp
from tenants.api.responses.schema import ProblemSerializer

_REASON: Final = "Pending reason, or what blocks the start or the termination; null if nothing does."


class HelpSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    numbers = serializers.DictField(required=False)


class ReasonSerializer(serializers.Serializer[Any]):
    """Pending reason: a stable code, its numbers and recommendations."""

    code = serializers.ChoiceField(
        choices=[reason.value for reason in Reason], help_text="Explained in docs/reasons.md."
    )
    message = serializers.CharField(required=False)
    numbers = serializers.DictField()
    help = HelpSerializer(many=True)
    since = serializers.DateTimeField(allow_null=True)


def reason_of(job: Job | JobRow) -> dict[str, Any] | None:
    """Return the reason of a pending job, as `ReasonSerializer` describes it."""
    if not job.reason:
        return None
    return {
        "code": job.reason,
        "numbers": job.reason_numbers,
        "help": job.reason_help,
        "since": format_timestamp(job.reason_at),
    }


class JobSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=JobKind.choices)
    state = serializers.ChoiceField(choices=JobState.choices)
    reason = serializers.SerializerMethodField(help_text=_REASON)
    workspace = serializers.CharField(source="workspace.slug")
    queue = serializers.CharField(source="queue.name")
    priority_class = serializers.CharField(source="priority_class.name")
    tags = serializers.ListField(child=serializers.CharField())
    preemptible = serializers.BooleanField()
    submitted_by = serializers.CharField(source="submitted_by.username")
    cards = serializers.SerializerMethodField(help_text="Requested by all tasks together.")
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
        return list_row(job_row(instance))


def list_row(row: JobRow) -> dict[str, Any]:
    """Return a row of a list in the format of `JobSerializer`, whose own fields would take ten times as
    long."""
    return {
        "id": str(row.id),
        "name": row.name,
        "kind": row.kind,
        "state": row.state,
        "reason": reason_of(row),
        "workspace": row.workspace,
        "queue": row.queue,
        "priority_class": row.priority_class,
        "tags": row.tags,
        "preemptible": row.preemptible,
        "submitted_by": row.submitted_by,
        "cards": row.cards,
        "tasks": row.tasks,
        "attempt": row.attempt,
        "end_reason": row.end_reason,
        "submitted_at": format_timestamp(row.submitted_at),
        "admitted_at": format_timestamp(row.admitted_at),
        "started_at": format_timestamp(row.started_at),
        "finished_at": format_timestamp(row.finished_at),
    }


class FilledSerializer(serializers.Serializer[Any]):
    """A field omitted in the job file and set by a default of the workspace's policy."""

    field = serializers.CharField()
    value = serializers.JSONField()


class SubmittedSerializer(JobSerializer):
    defaults = FilledSerializer(many=True)


class PositionSerializer(serializers.Serializer[Any]):
    """Queue position of a pending job. Jobs ahead are counted, not named."""

    position_in_local_queue = serializers.IntegerField(source="position", help_text="From 0.")
    waiting = serializers.IntegerField()
    cards_ahead = serializers.IntegerField()


class IdleSerializer(serializers.Serializer[Any]):
    """The time for which all GPUs of a running job have been idle, and the action of the workspace's
    policy.
    """

    since = serializers.DateTimeField()
    seen_at = serializers.DateTimeField(help_text="Latest measurement that showed it.")
    limit_s = serializers.IntegerField(allow_null=True, help_text="Idle timeout; null: nothing is done.")
    action = serializers.ChoiceField(choices=IdleAction.choices)
    warned_at = serializers.DateTimeField(allow_null=True)
    act_at = serializers.DateTimeField(allow_null=True, help_text="Earliest time of the action.")
    extended_until = serializers.DateTimeField(allow_null=True)
    extensions = serializers.IntegerField()
    acted_at = serializers.DateTimeField(allow_null=True)


class ExtensionRequestSerializer(StrictSerializer):
    """The time by which the action on an idle job is put off."""

    seconds = serializers.IntegerField(
        default=None, allow_null=True, min_value=1, max_value=2**31 - 1, help_text="null: the idle timeout."
    )


class JobDetailSerializer(JobSerializer):
    position = serializers.SerializerMethodField(help_text="null if the job isn't pending.")
    idle = serializers.SerializerMethodField(help_text="null if the job is in use or unmeasured.")
    spec = serializers.SerializerMethodField(help_text="Can be resubmitted unchanged.")
    deleted_at = serializers.SerializerMethodField(help_text="null if the job isn't deleted.")

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_deleted_at(self, job: Job) -> Any:
        return job_deleted_at(job=job)

    @extend_schema_field(PositionSerializer(allow_null=True))
    def get_position(self, job: Job) -> Any:
        position = job_position(job=job)
        return PositionSerializer(position).data if position else None

    @extend_schema_field(IdleSerializer(allow_null=True))
    def get_idle(self, job: Job) -> Any:
        stretch = find_idle_stretch(job)
        return IdleSerializer(stretch).data if stretch else None

    @extend_schema_field(JobFileSerializer)
    def get_spec(self, job: Job) -> dict[str, Any]:
        return to_mapping(job)

    def to_representation(self, instance: Job) -> dict[str, Any]:
        own = {
            "position": self.get_position(instance),
            "idle": self.get_idle(instance),
            "spec": self.get_spec(instance),
            "deleted_at": self.get_deleted_at(instance),
        }
        return super().to_representation(instance) | own


class DryRunSerializer(serializers.Serializer[Any]):
    """Result of a dry run: the job would be accepted; the start isn't predicted."""

    dry_run = serializers.BooleanField()
    name = serializers.CharField()
    queue = serializers.CharField()
    priority_class = serializers.CharField()
    tasks = serializers.IntegerField()
    min_run_s = serializers.IntegerField(help_text="Capped value.")
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
    """A resize of GPU memory of a running task, per GPU in MiB."""

    id = serializers.UUIDField()
    role = serializers.CharField(source="allocation.task.role.name")
    index = serializers.IntegerField(source="allocation.task.index")
    from_mib = serializers.IntegerField()
    to_mib = serializers.IntegerField()
    state = serializers.ChoiceField(
        choices=ResizeState.choices,
        help_text="`taking_back`: the confirmation timed out; the change is being reverted.",
    )
    code = serializers.CharField(help_text="Reason for the rejection.")
    message = serializers.CharField()
    asked_by = serializers.CharField()
    asked_at = serializers.DateTimeField(source="created_at")
    ended_at = serializers.DateTimeField(allow_null=True)


class ResizeRequestSerializer(StrictSerializer):
    """Task and new memory per GPU, with its unit as in a job file."""

    role = serializers.CharField(max_length=63, default="main")
    index = serializers.IntegerField(min_value=0, max_value=2**31 - 1, default=0)
    memory = serializers.CharField(max_length=20, help_text="For example `20480Mi` or `20Gi`.")


class NodeHoldSerializer(serializers.Serializer[Any]):
    """One active allocation on a node."""

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
    """One active allocation on a GPU."""

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
    """Decision of one scheduling cycle. The preempting job isn't included."""

    at = serializers.DateTimeField(source="created_at")
    cycle = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=DecisionKind.choices)
    code = serializers.CharField()


class TenantHoldSerializer(serializers.Serializer[Any]):
    tenant = serializers.CharField(
        source="tenant.slug",
        allow_null=True,
        default=None,
        help_text="null for the sum of the tenants that aren't named.",
    )
    amount = serializers.IntegerField()
    nominal = serializers.IntegerField(help_text="Part of the amount within the nominal quota.")
    borrowed = serializers.IntegerField(help_text="Part of the amount that is quota of others.")


class JobHoldSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="job_id")
    name = serializers.CharField()
    amount = serializers.IntegerField()


class PoolHoldersSerializer(serializers.Serializer[Any]):
    """Current amounts of one pool. `total` is the sum of the amounts of `tenants`, `unmanaged`,
    `unavailable` and `free`.
    """

    flavor = serializers.CharField(source="flavor.name")
    cluster = serializers.CharField(source="flavor.cluster.name")
    resource = serializers.ChoiceField(choices=[resource.value for resource in Resource])
    total = serializers.IntegerField(help_text="In the unit of the resource.")
    tenants = TenantHoldSerializer(many=True, help_text="The workspace of the job first.")
    jobs = JobHoldSerializer(many=True, help_text="Largest jobs of the workspace in this pool.")
    other_jobs = serializers.IntegerField(help_text="Amount of the other jobs of the workspace.")
    unmanaged = serializers.IntegerField(help_text="Pods outside Allotment.")
    unavailable = serializers.IntegerField(help_text="Free, but unhealthy or on a node that is closed.")
    free = serializers.IntegerField()


class ExplanationSerializer(serializers.Serializer[Any]):
    """Status of a job. `reason.help` contains recommendations."""

    state = serializers.ChoiceField(source="job.state", choices=JobState.choices)
    reason = serializers.SerializerMethodField(help_text=_REASON)
    position = serializers.SerializerMethodField(help_text="null if the job isn't pending.")
    promised_until = serializers.DateTimeField(
        allow_null=True, help_text="End of the reservation of nodes that preempted jobs still use."
    )
    cause = serializers.DictField(
        allow_null=True,
        help_text=(
            "Cause of the latest eviction: `rule`, and, if reported by the cluster, `pod`, "
            "`exit_code`, `reason` or `signal`, and `message`. null if the job was never "
            "evicted."
        ),
    )
    decisions = DecisionSerializer(many=True, help_text="Latest entries, newest first.")
    held_by = PoolHoldersSerializer(
        many=True,
        help_text=(
            "Holders of what a pending job lacks, for each pool that it could use. Tenants are named if you "
            "can view their quota."
        ),
    )

    @extend_schema_field(ReasonSerializer(allow_null=True))
    def get_reason(self, explanation: Any) -> dict[str, Any] | None:
        return reason_of(explanation["job"])

    @extend_schema_field(PositionSerializer(allow_null=True))
    def get_position(self, explanation: Any) -> Any:
        position = job_position(job=explanation["job"])
        return PositionSerializer(position).data if position else None


class PrioritySerializer(StrictSerializer):
    priority_class = serializers.CharField(max_length=63)


class ExchangeSerializer(StrictSerializer):
    other = serializers.CharField(max_length=63, help_text="Name or id of a job of the same user and queue.")


def _tags(help_text: str) -> serializers.ListField:
    child = serializers.CharField(max_length=63)
    return serializers.ListField(child=child, max_length=20, required=False, help_text=help_text)


class TagsSerializer(StrictSerializer):
    """Either all tags of a job, or what to add and what to remove."""

    tags = _tags("All tags of the job; the others are removed.")
    add = _tags("Tags to add.")
    remove = _tags("Tags to remove.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        if ("tags" in attrs) == bool(attrs.keys() & {"add", "remove"}):
            message = _("Specify either tags, or add and remove.")
            raise serializers.ValidationError({"tags": message}, code="mismatch")
        return attrs


class CloneSerializer(StrictSerializer):
    """Fields to change in the copy; all others are copied."""

    name = serializers.CharField(required=False, max_length=63, help_text="Generated if omitted.")
    queue = serializers.CharField(required=False, max_length=63)
    priority_class = serializers.CharField(required=False, max_length=63)


class BatchSerializer(StrictSerializer):
    action = serializers.ChoiceField(
        choices=["cancel", "suspend", "resume", "restart", "priority", "add_tags", "remove_tags"]
    )
    jobs = serializers.ListField(
        child=serializers.CharField(max_length=63), min_length=1, max_length=200, help_text="IDs or names."
    )
    priority_class = serializers.CharField(
        required=False, max_length=63, help_text="Only for the action `priority`."
    )
    tags = _tags("Only for the actions `add_tags` and `remove_tags`.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        if (attrs["action"] == "priority") != ("priority_class" in attrs):
            message = _("Only allowed for the action priority.")
            raise serializers.ValidationError({"priority_class": message}, code="mismatch")
        if (attrs["action"] in ("add_tags", "remove_tags")) != ("tags" in attrs):
            message = _("Only allowed, and required, for the actions add_tags and remove_tags.")
            raise serializers.ValidationError({"tags": message}, code="mismatch")
        return attrs


class BatchItemSerializer(serializers.Serializer[Any]):
    """Result of one job: `job` on success, otherwise `problem`."""

    ref = serializers.CharField()
    succeeded = serializers.BooleanField()
    job = JobSerializer(allow_null=True)
    problem = ProblemSerializer(allow_null=True)


class BatchResultSerializer(serializers.Serializer[Any]):
    items = BatchItemSerializer(many=True)
    succeeded = serializers.IntegerField()
    failed = serializers.IntegerField()
