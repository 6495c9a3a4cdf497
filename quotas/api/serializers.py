"""Wire format of queues and quotas."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from foundation.core.quantities import Resource
from quotas.models import (
    AllocationMode,
    PreemptOthers,
    PreemptWithin,
    Preference,
    StopPolicy,
    Strategy,
    WhenCan,
)
from quotas.selectors.queues.queue_flavors import queue_flavor_names


class QueueSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    cell = serializers.CharField(source="cell.name")
    strategy = serializers.ChoiceField(choices=Strategy.choices)
    stop_policy = serializers.ChoiceField(choices=StopPolicy.choices)
    allocation_mode = serializers.ChoiceField(choices=AllocationMode.choices)
    preemption = serializers.BooleanField(
        help_text=("false: the queue never preempts, regardless of the fields below.")
    )
    within_queue = serializers.ChoiceField(choices=PreemptWithin.choices)
    reclaim = serializers.ChoiceField(choices=PreemptOthers.choices)
    while_borrowing = serializers.ChoiceField(choices=PreemptOthers.choices)
    max_priority = serializers.IntegerField(allow_null=True)
    when_can_borrow = serializers.ChoiceField(choices=WhenCan.choices)
    when_can_preempt = serializers.ChoiceField(choices=WhenCan.choices)
    preference = serializers.ChoiceField(choices=Preference.choices)
    backfill = serializers.BooleanField()
    user_shares = serializers.BooleanField(help_text=("Fair sharing between users: less recent usage first."))
    flavors = serializers.SerializerMethodField(
        help_text=("In order of preference; `cluster/flavor` if two clusters have the same flavor name.")
    )

    def get_flavors(self, queue: Any) -> list[str]:
        return queue_flavor_names(queue)


class QuotaRowSerializer(serializers.Serializer[Any]):
    """The quota of one node for one resource of one flavor, the same at every endpoint.

    Amounts in the resource's unit: millicores, MiB, percent of a GPU, GPUs. null: unlimited.
    """

    queue = serializers.CharField(help_text="Empty on the rows of a tenant itself.")
    cluster = serializers.CharField(source="flavor.cluster.name")
    flavor = serializers.CharField(source="flavor.name")
    resource = serializers.ChoiceField(choices=[resource.value for resource in Resource])
    nominal = serializers.IntegerField(
        allow_null=True, help_text="The quota of the node: own_nominal + distributed."
    )
    own_nominal = serializers.IntegerField(
        allow_null=True, help_text="What it did not distribute: all below it share it."
    )
    distributed = serializers.IntegerField(
        allow_null=True, help_text="The nominals of its children together; 0 at a queue."
    )
    borrowing_limit = serializers.IntegerField(allow_null=True)
    lending_limit = serializers.IntegerField(allow_null=True)
    reserved = serializers.IntegerField(
        help_text="Charged to the admitted jobs at and below the node, whether or not they use it."
    )
    borrowed = serializers.IntegerField(help_text="The part of reserved that is quota of others.")
    lent = serializers.IntegerField(help_text="The part of nominal that others reserve now.")
    available = serializers.IntegerField(
        allow_null=True, help_text="What could be reserved now, borrowing included."
    )
    potential = serializers.IntegerField(
        allow_null=True, help_text="Maximum that can be reserved if no other tenant reserves quota."
    )
