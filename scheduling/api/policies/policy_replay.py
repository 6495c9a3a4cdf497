"""`…/admin/policy-replays`: the jobs of a period, replayed under another policy, quota or size of a cell."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, ClassVar

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.models import Cell, Flavor, Sharing
from clusters.selectors.cell import cell_get
from foundation.core.errors import FieldError, Invalid, NotFound
from quotas.api.queue_settings import QueueChangeSerializer
from quotas.models import QuotaNode
from quotas.selectors.queues.queue import queue_get
from quotas.selectors.queues.queue_flavors import find_flavors_named
from quotas.selectors.tables.quota_table import tenant_get
from scheduling.models import PolicyReplay, SimulationState
from scheduling.selectors.policies.policy_replay import (
    COLUMNS,
    REPLAY_COLUMNS,
    compare_teams,
    replay_get,
    replay_list,
)
from scheduling.services.policy_replay.change import MOST_NODES, REPLAYED_SETTINGS, ReplayChange
from scheduling.services.policy_replay.replay import replay_cancel, replay_create, replay_delete
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView
from tenants.api.requests.bodies import StrictSerializer, named_by, read_body
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import problem_responses
from tenants.selectors.tenant import workspace_get


class ReplayedSettingsSerializer(StrictSerializer):
    """Settings of queues; omitted settings don't change."""

    def get_fields(self) -> dict[str, Any]:
        known = QueueChangeSerializer().get_fields()
        return {name: known[name] for name in REPLAYED_SETTINGS}


class ReplayCreateSerializer(StrictSerializer):
    """A period and the change. At least one of `sharing`, `settings`, `gpus` and `pool_nodes`."""

    cell = serializers.CharField(max_length=63)
    begin_at = serializers.DateTimeField()
    end_at = serializers.DateTimeField(help_text="In the past; 1 hour to 31 days after `begin_at`.")
    name = serializers.CharField(max_length=100, required=False, allow_blank=True)
    sharing = serializers.ChoiceField(choices=Sharing.choices, required=False)
    settings = ReplayedSettingsSerializer(required=False)
    workspace = serializers.SlugField(
        max_length=63, required=False, help_text="With `queue`: the queue that gets `settings`. Default: all."
    )
    queue = serializers.CharField(max_length=63, required=False)
    tenant = serializers.SlugField(max_length=63, required=False, help_text="Gets `gpus` of `quota_pool`.")
    quota_pool = serializers.CharField(max_length=127, required=False)
    gpus = serializers.IntegerField(
        min_value=0, max_value=10**6, required=False, help_text="Nominal quota; CPU and memory follow."
    )
    on_top = serializers.BooleanField(
        required=False, help_text="Create the quota instead of taking it from the parent."
    )
    pool = serializers.CharField(max_length=127, required=False, help_text="Gets `pool_nodes` nodes.")
    pool_nodes = serializers.IntegerField(min_value=0, max_value=MOST_NODES, required=False)


class ReplayWaitSerializer(serializers.Serializer[Any]):
    seconds = serializers.IntegerField()
    at_least = serializers.BooleanField(help_text="Lower bound: some of these jobs hadn't started.")


class ReplayFiguresSerializer(serializers.Serializer[Any]):
    """Figures of one workspace, or of all."""

    jobs = serializers.IntegerField(help_text="Submitted in the period.")
    not_started = serializers.IntegerField()
    wait_median = ReplayWaitSerializer(allow_null=True)
    wait_p90 = ReplayWaitSerializer(allow_null=True)
    preemptions = serializers.IntegerField()
    lost_gpu_hours = serializers.FloatField(help_text="Work since the last checkpoint of preempted jobs.")
    gpu_hours = serializers.FloatField()
    inside_quota_s = serializers.IntegerField(
        help_text="Time in which a job was pending although its GPUs were within the nominal quota."
    )


class ReplayColumnSerializer(serializers.Serializer[Any]):
    total = ReplayFiguresSerializer()
    gpus = serializers.FloatField()
    allocation_rate = serializers.FloatField(allow_null=True, help_text="0 to 1")
    bucket_s = serializers.IntegerField()
    allocated_gpus = serializers.ListField(
        child=serializers.FloatField(), help_text="Mean of each `bucket_s` from `begin_at`."
    )


class ReplayTeamSerializer(serializers.Serializer[Any]):
    workspace = serializers.CharField(source="name")
    measured = ReplayFiguresSerializer(source="figures.measured", allow_null=True)
    recorded = ReplayFiguresSerializer(source="figures.recorded", allow_null=True)
    changed = ReplayFiguresSerializer(source="figures.changed", allow_null=True)


class ReplayResultSerializer(serializers.Serializer[Any]):
    """`measured` has the actual figures, `recorded` and `changed` are simulated with the same jobs."""

    measured = ReplayColumnSerializer()
    recorded = ReplayColumnSerializer()
    changed = ReplayColumnSerializer(allow_null=True, help_text="null if only this simulation failed.")
    jobs = serializers.IntegerField(help_text="Jobs replayed, those from before the period included.")
    running_on = serializers.IntegerField(help_text="Of these, jobs whose end isn't known.")
    teams = ReplayTeamSerializer(many=True)


class ReplaySerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    cell = serializers.CharField(source="cell.name")
    created_at = serializers.DateTimeField()
    created_by = serializers.CharField(source="actor_name")
    begin_at = serializers.DateTimeField()
    end_at = serializers.DateTimeField()
    change = serializers.DictField(help_text="What differs from the recorded configuration.")
    state = serializers.ChoiceField(choices=SimulationState.choices)
    progress = serializers.FloatField(source="part_done", help_text="0 to 1")
    finished_at = serializers.DateTimeField(allow_null=True)
    error = serializers.CharField(help_text="Code of the cause, empty unless it failed.")


class ReplayDetailSerializer(ReplaySerializer):
    result = serializers.SerializerMethodField(
        help_text="null until it ends, and of a canceled replay. Of a failed one: the figures computed "
        "before, if any, else null."
    )

    @extend_schema_field(ReplayResultSerializer(allow_null=True))
    def get_result(self, replay: PolicyReplay) -> Any:
        """Return the figures."""
        if not replay.has_figures:
            return None
        columns = dict.fromkeys(COLUMNS) | replay.result
        return ReplayResultSerializer({**columns, "teams": compare_teams(replay)}).data


class ReplaysQuery(ListQuery):
    columns: ClassVar = REPLAY_COLUMNS


class ReplaysView(PlatformView):
    """All replays."""

    points: ClassVar = {"GET": Permission.CLUSTER_VIEW, "POST": Permission.CLUSTER_EDIT}

    @extend_schema(
        operation_id="policy_replay_list",
        summary="Policy replays, newest first",
        parameters=[ReplaysQuery],
        responses={200: list_of(ReplaySerializer), **problem_responses(400)},
        tags=["replays"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of replays."""
        return list_response(request, ReplaysQuery, replay_list(viewer=self.viewer), ReplaySerializer)

    @extend_schema(
        operation_id="policy_replay_create",
        summary="Replay the jobs of a period under another configuration",
        description=(
            "The recorded jobs are scheduled again in virtual time, with the recorded configuration and with "
            "the change. Nothing of the cell changes. A worker computes one replay at a time."
        ),
        request=ReplayCreateSerializer,
        responses={201: ReplayDetailSerializer, **problem_responses(400, 404, 409)},
        tags=["replays"],
    )
    def post(self, request: Request) -> Response:
        """Start a replay."""
        read_query(request, NoQuery)
        wanted = read_body(ReplayCreateSerializer, request)
        with named_by("cell"):
            cell = cell_get(viewer=self.viewer, name=wanted["cell"])
        made = replay_create(
            acting_user=self.viewer,
            cell=cell,
            begin=wanted["begin_at"],
            end=wanted["end_at"],
            name=wanted.get("name", ""),
            change=self._read_change(cell, wanted),
        )
        headers = {"Location": f"{request.path}/{made.pk}"}
        return Response(ReplayDetailSerializer(made).data, status=201, headers=headers)

    def _read_change(self, cell: Cell, wanted: Mapping[str, Any]) -> ReplayChange:
        queue = node = None
        _require_together(
            wanted, ("workspace", "queue"), ("tenant", "quota_pool", "gpus"), ("pool", "pool_nodes")
        )
        if "queue" in wanted:
            with named_by("queue"):
                queue = queue_get(
                    self.viewer, workspace_get(viewer=self.viewer, slug=wanted["workspace"]), wanted["queue"]
                )
                if queue.cell_id != cell.pk:
                    raise NotFound
        if "tenant" in wanted:
            with named_by("tenant"):
                tenant = tenant_get(self.viewer, wanted["tenant"])
                node = QuotaNode.unscoped.filter(cell=cell, tenant=tenant, is_queue=False).first()
                if node is None:
                    raise NotFound
        sharing = wanted.get("sharing")
        return ReplayChange(
            sharing=Sharing(sharing) if sharing else None,
            queue=queue,
            settings=wanted.get("settings", {}),
            node=node,
            quota_pool=_pool_of(cell, wanted, "quota_pool"),
            gpus=wanted.get("gpus"),
            on_top=wanted.get("on_top", False),
            pool=_pool_of(cell, wanted, "pool"),
            pool_nodes=wanted.get("pool_nodes"),
        )


def _require_together(wanted: Mapping[str, Any], *groups: tuple[str, ...]) -> None:
    for group in groups:
        missing = [name for name in group if name not in wanted]
        if missing and len(missing) < len(group):
            message = _("Specify %(names)s together.") % {"names": ", ".join(group)}
            raise Invalid(message, errors=[FieldError(missing[0], "REQUIRED", message)])


def _pool_of(cell: Cell, wanted: Mapping[str, Any], field: str) -> Flavor | None:
    if field not in wanted:
        return None
    found, wrong = find_flavors_named(cell, [wanted[field]])
    if wrong:
        message = _("Pool not found or ambiguous in the scheduling domain. Use cluster/pool.")
        raise Invalid(message, code="FLAVOR_UNKNOWN", errors=[FieldError(field, "UNKNOWN", message)])
    return found[0]


class ReplayView(PlatformView):
    """One replay."""

    points: ClassVar = {"GET": Permission.CLUSTER_VIEW, "DELETE": Permission.CLUSTER_EDIT}

    @extend_schema(
        operation_id="policy_replay_get",
        summary="Get a policy replay with its result",
        responses={200: ReplayDetailSerializer, **problem_responses(400, 404)},
        tags=["replays"],
    )
    def get(self, request: Request, replay: uuid.UUID) -> Response:
        """Return the replay."""
        read_query(request, NoQuery)
        return Response(ReplayDetailSerializer(replay_get(viewer=self.viewer, pk=replay)).data)

    @extend_schema(
        operation_id="policy_replay_delete",
        summary="Delete a policy replay",
        responses={204: None, **problem_responses(400, 404)},
        tags=["replays"],
    )
    def delete(self, request: Request, replay: uuid.UUID) -> Response:
        """Delete the replay; a running replay stops."""
        read_query(request, NoQuery)
        replay_delete(acting_user=self.viewer, replay=replay_get(viewer=self.viewer, pk=replay))
        return Response(status=204)


class ReplayCancelView(PlatformView):
    """The cancellation of a pending or running replay."""

    points: ClassVar = {"POST": Permission.CLUSTER_EDIT}

    @extend_schema(
        operation_id="policy_replay_cancel",
        summary="Cancel a policy replay",
        request=None,
        responses={200: ReplayDetailSerializer, **problem_responses(400, 404, 409)},
        tags=["replays"],
    )
    def post(self, request: Request, replay: uuid.UUID) -> Response:
        """Cancel the replay."""
        read_query(request, NoQuery)
        found = replay_get(viewer=self.viewer, pk=replay)
        return Response(ReplayDetailSerializer(replay_cancel(acting_user=self.viewer, replay=found)).data)
