"""The job file as the schema of the REST API; `scheduling.job_file` reads it."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.job_file.container import GRACE_MAX_S, PULL_POLICIES
from scheduling.models import JobKind

_QUANTITY = "As Kubernetes writes it."


class GpuFileSerializer(serializers.Serializer[Any]):
    cards = serializers.IntegerField(default=1, min_value=0, max_value=64)
    mode = serializers.ChoiceField(choices=["whole", "slice", "mig"], default="whole")
    cores = serializers.IntegerField(required=False, help_text="Slices: percent of each card, 1 to 100.")
    memory = serializers.CharField(required=False, help_text="Slices: of each card, in Mi, Gi or %.")
    model = serializers.ListField(child=serializers.CharField(), required=False, help_text="Any of these.")
    profile = serializers.CharField(required=False, max_length=40, help_text="MIG instances: 2g.10gb.")


class LimitsFileSerializer(serializers.Serializer[Any]):
    cpu = serializers.CharField(required=False)
    memory = serializers.CharField(required=False)


class ResourcesFileSerializer(serializers.Serializer[Any]):
    cpu = serializers.CharField(required=False, help_text=f"{_QUANTITY} 8, 0.5 or 500m.")
    memory = serializers.CharField(required=False, help_text=f"{_QUANTITY} 64Gi.")
    gpu = GpuFileSerializer(required=False)
    exclusive_cpus = serializers.BooleanField(default=False, help_text="Whole CPUs for each task alone.")
    limits = LimitsFileSerializer(required=False, help_text="How far a task may go beyond what it asks for.")


class HttpFileSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(default="/")
    port = serializers.IntegerField(min_value=1, max_value=65_535)
    scheme = serializers.ChoiceField(choices=["HTTP", "HTTPS"], required=False)


class ActionFileSerializer(serializers.Serializer[Any]):
    command = serializers.ListField(child=serializers.CharField(), required=False)
    http = HttpFileSerializer(required=False)


class ProbeFileSerializer(ActionFileSerializer):
    """Exactly one of `command`, `http` and `tcp`."""

    tcp = serializers.IntegerField(required=False, min_value=1, max_value=65_535, help_text="A port.")
    delay_s = serializers.IntegerField(required=False, min_value=0)
    period_s = serializers.IntegerField(required=False, min_value=1)
    timeout_s = serializers.IntegerField(required=False, min_value=1)
    failures = serializers.IntegerField(required=False, min_value=1)
    successes = serializers.IntegerField(required=False, min_value=1)


class ProbesFileSerializer(serializers.Serializer[Any]):
    startup = ProbeFileSerializer(required=False)
    readiness = ProbeFileSerializer(required=False)
    liveness = ProbeFileSerializer(required=False)


class PreStopFileSerializer(ActionFileSerializer):
    """Exactly one of `command`, `http` and `sleep_s`."""

    sleep_s = serializers.IntegerField(required=False, min_value=1, max_value=300)


class RoleFileSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(required=False, max_length=40)
    replicas = serializers.IntegerField(default=1, min_value=1, max_value=4096)
    min_replicas = serializers.IntegerField(required=False, min_value=1)
    image = serializers.CharField(required=False, max_length=300)
    command = serializers.ListField(child=serializers.CharField(), required=False)
    args = serializers.ListField(child=serializers.CharField(), required=False)
    working_directory = serializers.CharField(required=False)
    image_pull_policy = serializers.ChoiceField(choices=PULL_POLICIES, required=False)
    probes = ProbesFileSerializer(required=False)
    pre_stop = PreStopFileSerializer(required=False)
    resources = ResourcesFileSerializer(required=False)


class SourceFileSerializer(serializers.Serializer[Any]):
    """A secret, or a config map, of the workspace's namespace; exactly one."""

    secret = serializers.CharField(required=False, max_length=253)
    config = serializers.CharField(required=False, max_length=253)
    prefix = serializers.CharField(max_length=63, help_text="What the variables begin with, as in HUB_.")
    optional = serializers.BooleanField(default=False)


class VolumeFileSerializer(serializers.Serializer[Any]):
    """Exactly one of `claim`, `empty`, `config` and `secret`."""

    claim = serializers.CharField(required=False, max_length=253)
    empty = serializers.CharField(required=False, help_text="Its largest size, as in 10Gi.")
    config = serializers.CharField(required=False, max_length=253)
    secret = serializers.CharField(required=False, max_length=253)
    mount = serializers.CharField(max_length=1024)
    # A field of that name, which the class takes out before it could be mistaken for the setting.
    read_only = serializers.BooleanField(required=False, help_text="Of a claim.")  # type: ignore[assignment]
    sub_path = serializers.CharField(required=False, max_length=1024)
    in_memory = serializers.BooleanField(required=False, help_text="Of an empty one.")
    optional = serializers.BooleanField(required=False, help_text="Of a secret or a config map.")


class SecurityFileSerializer(serializers.Serializer[Any]):
    """Ids of the user and the groups that the programs run as; never root."""

    run_as_user = serializers.IntegerField(required=False, min_value=1)
    run_as_group = serializers.IntegerField(required=False, min_value=1)
    fs_group = serializers.IntegerField(required=False, min_value=1)


class GangFileSerializer(serializers.Serializer[Any]):
    min_available = serializers.IntegerField(min_value=1, help_text="Default: the sum of min_replicas.")


class SimulateFileSerializer(serializers.Serializer[Any]):
    start_s = serializers.FloatField(
        required=False, min_value=0, help_text="From creation to running; default: one to seven seconds."
    )
    run_s = serializers.FloatField(required=False, min_value=0, help_text="Default: until it is removed.")
    exit_code = serializers.IntegerField(required=False, min_value=0, max_value=255)
    gpu_utilisation = serializers.FloatField(required=False, min_value=0, max_value=1)


class JobFileSerializer(serializers.Serializer[Any]):
    """A job to submit."""

    kind = serializers.ChoiceField(choices=JobKind.choices, default=JobKind.BATCH.value)
    name = serializers.CharField(required=False, max_length=63, help_text="A DNS label; made when absent.")
    queue = serializers.CharField(default="default")
    priority_class = serializers.CharField(default="normal")
    preemptible = serializers.BooleanField(default=True)
    min_run_s = serializers.IntegerField(required=False, min_value=0)
    max_run_s = serializers.IntegerField(required=False, allow_null=True, min_value=1)
    checkpoint_interval_s = serializers.IntegerField(required=False, allow_null=True, min_value=1)
    gang = GangFileSerializer(required=False)
    roles = RoleFileSerializer(many=True)
    placement = serializers.DictField(required=False)
    lifecycle = serializers.ListField(child=serializers.DictField(), required=False)
    environment = serializers.DictField(
        child=serializers.JSONField(),
        required=False,
        help_text="By name a text, or {secret: …, key: …} or {config: …, key: …}.",
    )
    environment_from = SourceFileSerializer(many=True, required=False)
    volumes = VolumeFileSerializer(many=True, required=False)
    image_pull_secrets = serializers.ListField(child=serializers.CharField(), required=False)
    security = SecurityFileSerializer(required=False)
    termination_grace_s = serializers.IntegerField(required=False, min_value=0, max_value=GRACE_MAX_S)
    simulate = SimulateFileSerializer(required=False)
