"""Wire format of queues and quotas."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from foundation.quantities import Resource
from quotas.models import AllocationMode, StopPolicy, Strategy


class QueueSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    cell = serializers.CharField(source="cell.name")
    strategy = serializers.ChoiceField(choices=Strategy.choices)
    stop_policy = serializers.ChoiceField(choices=StopPolicy.choices)
    allocation_mode = serializers.ChoiceField(choices=AllocationMode.choices)
    preemption = serializers.BooleanField()
    flavors = serializers.SerializerMethodField(help_text="In the order in which they are tried.")

    def get_flavors(self, queue: Any) -> list[str]:
        return [row.flavor.name for row in queue.queue_flavors.all()]


class QuotaRowSerializer(serializers.Serializer[Any]):
    """Amounts in the resource's unit: millicores, MiB, percent points of a card, cards. null: unlimited."""

    queue = serializers.CharField(help_text="Empty on the rows of the workspace itself.")
    cluster = serializers.CharField(source="flavor.cluster.name")
    flavor = serializers.CharField(source="flavor.name")
    resource = serializers.ChoiceField(choices=[resource.value for resource in Resource])
    nominal = serializers.IntegerField(allow_null=True)
    borrowing_limit = serializers.IntegerField(allow_null=True)
    lending_limit = serializers.IntegerField(allow_null=True)
    used = serializers.IntegerField()
    borrowed = serializers.IntegerField()
    available = serializers.IntegerField(allow_null=True, help_text="What could be added now.")
    potential = serializers.IntegerField(allow_null=True, help_text="What could be used if nobody else did.")
