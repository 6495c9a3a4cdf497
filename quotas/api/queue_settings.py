"""Opening a queue and changing its settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from django.db import transaction
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.models import Cell, Flavor
from foundation.core.errors import FieldError, Invalid
from foundation.sql.versions import if_match
from quotas.api.serializers import QueueSerializer
from quotas.models import (
    AllocationMode,
    PreemptOthers,
    PreemptWithin,
    Preference,
    Queue,
    StopPolicy,
    Strategy,
    WhenCan,
)
from quotas.selectors.queues.queue import queue_get
from quotas.selectors.queues.queue_flavors import find_flavors_named, get_cell_named
from quotas.services.queues.queue import queue_create, queue_rename
from quotas.services.queues.queue_delete import queue_delete
from quotas.services.queues.queue_preset import Preset, queue_preset
from quotas.services.queues.queue_settings import preset_of, queue_update
from tenants.access.permissions import Permission
from tenants.api.requests.base import WorkspaceView
from tenants.api.requests.bodies import StrictSerializer, answer_row, named_by, read_body
from tenants.api.requests.query import NoQuery, WriteQuery, read_query
from tenants.api.responses.schema import IF_MATCH, problem_responses

_PRIORITY_MAX = 2**31 - 1


class QueueDetailSerializer(QueueSerializer):
    preset = serializers.SerializerMethodField(help_text="null: custom settings.")

    @extend_schema_field(serializers.ChoiceField(choices=[one.value for one in Preset], allow_null=True))
    def get_preset(self, queue: Queue) -> str | None:
        found = preset_of(queue)
        return found.value if found else None


class QueueChangeSerializer(StrictSerializer):
    """Fields that are left out stay. A preset is applied first, and what else is named on top of it."""

    name = serializers.CharField(max_length=63, required=False)
    preset = serializers.ChoiceField(choices=[one.value for one in Preset], required=False)
    strategy = serializers.ChoiceField(choices=Strategy.choices, required=False)
    stop_policy = serializers.ChoiceField(choices=StopPolicy.choices, required=False)
    allocation_mode = serializers.ChoiceField(choices=AllocationMode.choices, required=False)
    preemption = serializers.BooleanField(required=False)
    within_queue = serializers.ChoiceField(choices=PreemptWithin.choices, required=False)
    reclaim = serializers.ChoiceField(choices=PreemptOthers.choices, required=False)
    while_borrowing = serializers.ChoiceField(choices=PreemptOthers.choices, required=False)
    max_priority = serializers.IntegerField(
        required=False, allow_null=True, min_value=-_PRIORITY_MAX, max_value=_PRIORITY_MAX
    )
    when_can_borrow = serializers.ChoiceField(choices=WhenCan.choices, required=False)
    when_can_preempt = serializers.ChoiceField(choices=WhenCan.choices, required=False)
    preference = serializers.ChoiceField(choices=Preference.choices, required=False)
    backfill = serializers.BooleanField(required=False)
    user_shares = serializers.BooleanField(required=False)
    flavors = serializers.ListField(
        child=serializers.CharField(max_length=127), required=False, max_length=64,
        help_text=("In order of preference; `cluster/flavor` if two clusters have the same flavor "
                  "name."),
    )  # fmt: skip


class QueueCreateSerializer(StrictSerializer):
    name = serializers.CharField(max_length=63)
    cell = serializers.CharField(max_length=63, required=False, help_text="Required if there are several.")
    flavors = serializers.ListField(child=serializers.CharField(max_length=127), max_length=64)
    preset = serializers.ChoiceField(choices=[one.value for one in Preset], default=Preset.BALANCED.value)
    strategy = serializers.ChoiceField(choices=Strategy.choices, default=Strategy.BEST_EFFORT.value)


class QueueDeleteQuery(WriteQuery):
    move_to = serializers.CharField(
        required=False, max_length=63, help_text=("Queue of the workspace that receives the pending jobs.")
    )


class QueueView(WorkspaceView):
    """One queue, by name."""

    points: ClassVar = {
        "GET": Permission.QUOTA_VIEW,
        "PATCH": Permission.QUEUE_EDIT,
        "DELETE": Permission.QUEUE_EDIT,
    }

    @extend_schema(
        operation_id="queue_get",
        summary="Get a queue with its settings",
        responses={200: QueueDetailSerializer, **problem_responses(400, 404)},
        tags=["quotas"],
    )
    def get(self, request: Request, ws: str, queue: str) -> Response:
        """Return the queue."""
        read_query(request, NoQuery)
        return self._shown(queue)

    @extend_schema(
        operation_id="queue_update",
        summary="Update the settings of a queue",
        description="`hold` admits no new jobs; `hold-and-drain` also evicts running jobs.",
        parameters=[IF_MATCH],
        request=QueueChangeSerializer,
        responses={200: QueueDetailSerializer, **problem_responses(400, 404, 409)},
        tags=["quotas"],
    )
    def patch(self, request: Request, ws: str, queue: str) -> Response:
        """Change the named settings, all or none."""
        read_query(request, NoQuery)
        found, expected = queue_get(self.viewer, self.workspace, queue), if_match(request)
        values = read_body(QueueChangeSerializer, request)
        preset = values.pop("preset", None)
        names, name = values.pop("flavors", None), values.pop("name", None)
        with transaction.atomic():
            if name is not None:
                queue_rename(acting_user=self.viewer, queue=found, name=name, expected=expected)
            if values or preset or names is not None or name is None:
                queue_update(
                    acting_user=self.viewer,
                    queue=found,
                    values=values,
                    preset=Preset(preset) if preset else None,
                    flavors=None if names is None else _flavors(found.cell, names),
                    expected=expected if name is None else None,
                )
        return self._shown(found.name)

    @extend_schema(
        operation_id="queue_delete",
        summary="Delete a queue",
        description=(
            "Rejected while jobs are running, or pending and not moved. The quota returns to the workspace."
        ),
        parameters=[IF_MATCH, QueueDeleteQuery],
        responses={204: None, **problem_responses(400, 404, 409)},
        tags=["quotas"],
    )
    def delete(self, request: Request, ws: str, queue: str) -> Response:
        """Close the queue permanently; its name can be used again."""
        query = read_query(request, QueueDeleteQuery)
        found, expected, target = queue_get(self.viewer, self.workspace, queue), if_match(request), None
        if "move_to" in query:
            with named_by("move_to"):
                target = queue_get(self.viewer, self.workspace, query["move_to"])
        queue_delete(acting_user=self.viewer, queue=found, move_to=target, expected=expected)
        return Response(status=204)

    def _shown(self, queue: str) -> Response:
        return answer_row(QueueDetailSerializer, queue_get(self.viewer, self.workspace, queue))


@transaction.atomic
def open_queue(view: WorkspaceView, request: Request) -> Response:
    """Create the queue that the body describes, or nothing if a part is refused; answers `POST …/queues`."""
    values = read_body(QueueCreateSerializer, request)
    cell = get_cell_named(values.get("cell"))
    made = queue_create(
        acting_user=view.viewer,
        cell=cell,
        workspace=view.workspace,
        name=values["name"],
        flavors=_flavors(cell, values["flavors"]),
        strategy=Strategy(values["strategy"]),
    )
    queue_preset(acting_user=view.viewer, queue=made, preset=Preset(values["preset"]))
    return answer_row(
        QueueDetailSerializer,
        queue_get(view.viewer, view.workspace, made.name),
        location=f"{request.path}/{made.name}",
    )


def _flavors(cell: Cell, names: Sequence[str]) -> list[Flavor]:
    found, wrong = find_flavors_named(cell, names)
    if wrong:
        message = _("Pool not found or ambiguous in the scheduling domain. Use cluster/pool.")
        errors = [FieldError(f"flavors.{index}", "UNKNOWN", message) for index in wrong]
        raise Invalid(message, code="FLAVOR_UNKNOWN", errors=errors)
    return found
