"""The job file as the schema describes it. Reading is done by `scheduling.spec`, which tells all mistakes."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.models import JobKind

_QUANTITY = "As Kubernetes writes it."


class GpuFileSerializer(serializers.Serializer[Any]):
    cards = serializers.IntegerField(default=1, min_value=0, max_value=64)
    mode = serializers.ChoiceField(choices=["whole", "slice", "mig"], default="whole")
    cores = serializers.IntegerField(required=False, help_text="Slices: percent of each card, 1 to 100.")
    memory = serializers.CharField(required=False, help_text="Slices: of each card, in Mi, Gi or %.")
    model = serializers.ListField(child=serializers.CharField(), required=False, help_text="Any of these.")
    profile = serializers.CharField(required=False, max_length=40, help_text="MIG instances: 2g.10gb.")


class ResourcesFileSerializer(serializers.Serializer[Any]):
    cpu = serializers.CharField(required=False, help_text=f"{_QUANTITY} 8, 0.5 or 500m.")
    memory = serializers.CharField(required=False, help_text=f"{_QUANTITY} 64Gi.")
    gpu = GpuFileSerializer(required=False)


class RoleFileSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(required=False, max_length=40)
    replicas = serializers.IntegerField(default=1, min_value=1, max_value=4096)
    min_replicas = serializers.IntegerField(required=False, min_value=1)
    image = serializers.CharField(required=False, max_length=300)
    command = serializers.ListField(child=serializers.CharField(), required=False)
    resources = ResourcesFileSerializer(required=False)


class GangFileSerializer(serializers.Serializer[Any]):
    min_available = serializers.IntegerField(min_value=1, help_text="Default: the sum of min_replicas.")


class SimulateFileSerializer(serializers.Serializer[Any]):
    run_s = serializers.FloatField(required=False, min_value=0)
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
    environment = serializers.DictField(child=serializers.CharField(), required=False)
    volumes = serializers.ListField(child=serializers.DictField(), required=False)
    simulate = SimulateFileSerializer(required=False)
