"""Creating a team: workspace, members, queue and quota in one request."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from quotas.api.quota_serializers import QuotaEffectSerializer
from quotas.distribution.division import Keep
from quotas.selectors.pools.flavor import list_flavors
from quotas.services.queues.queue_preset import Preset
from quotas.services.quota_amounts import select_flavor
from quotas.services.quota_plan import AMOUNT_MAX
from quotas.services.team import GPUS_MAX, Team, TeamMember, TeamPlan, TeamPool, team_create, team_preview
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.api.invitations import console_address
from tenants.api.requests.base import PlatformView
from tenants.api.requests.bodies import StrictSerializer, named_by, read_body
from tenants.api.requests.query import WriteQuery, read_query
from tenants.api.requests.writes import dry_run_of
from tenants.api.responses.schema import problem_responses
from tenants.models import Role
from tenants.selectors.tenant import tenant_get

_FROM_NODES: Final = (
    "Omitted: the share of the pool's nodes that belongs to the GPUs, or unlimited as at the root."
)


class TeamMemberSerializer(StrictSerializer):
    username = serializers.CharField(max_length=150)
    role = serializers.CharField(
        default=Role.EDITOR.value, max_length=120, help_text="Built-in or custom role."
    )
    email = serializers.EmailField(
        default="", allow_blank=True, help_text="For the invitation of a user without an account."
    )


class TeamPoolSerializer(StrictSerializer):
    """Quota of one pool. GPUs are whole GPUs; null is unlimited."""

    cluster = serializers.CharField(
        default="", max_length=63, help_text="Required if several clusters have the flavor."
    )
    flavor = serializers.CharField(max_length=63)
    gpus = serializers.IntegerField(min_value=0, max_value=GPUS_MAX, help_text="Nominal quota.")
    cpu = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=AMOUNT_MAX,
        help_text=f"Millicores. {_FROM_NODES}",
    )
    memory = serializers.IntegerField(
        required=False, allow_null=True, min_value=0, max_value=AMOUNT_MAX, help_text=f"MiB. {_FROM_NODES}"
    )
    borrowing_limit = serializers.IntegerField(
        default=None, allow_null=True, min_value=0, max_value=GPUS_MAX, help_text="In GPUs."
    )
    lending_limit = serializers.IntegerField(
        default=None, allow_null=True, min_value=0, max_value=GPUS_MAX, help_text="In GPUs."
    )


class TeamCreateSerializer(StrictSerializer):
    parent = serializers.UUIDField(help_text="Folder of the new workspace; its quota is divided.")  # type: ignore[assignment]
    name = serializers.CharField(max_length=120)
    slug = serializers.CharField(
        default="", allow_blank=True, max_length=63, help_text="Default: from the name."
    )
    members = TeamMemberSerializer(many=True, default=list, max_length=100)  # type: ignore[call-arg]
    pools = TeamPoolSerializer(  # type: ignore[call-arg]
        many=True, max_length=64, help_text="In the queue's order of preference."
    )
    queue = serializers.CharField(default="default", max_length=63)
    preset = serializers.ChoiceField(choices=[one.value for one in Preset], default=Preset.BALANCED.value)
    invite = serializers.BooleanField(
        default=False, help_text="Invite users without an account; platform admins only."
    )
    allow_idle = serializers.BooleanField(
        default=False, help_text="Create the team even if no job with one GPU can ever start."
    )


class TeamInvitationSerializer(serializers.Serializer[Any]):
    username = serializers.CharField(source="user.username")
    path = serializers.CharField(help_text="Page of the console that sets the first password. Shown once.")
    expires_at = serializers.DateTimeField()
    emailed = serializers.BooleanField()


class TeamPoolResultSerializer(serializers.Serializer[Any]):
    cluster = serializers.CharField(source="flavor.cluster.name")
    flavor = serializers.CharField(source="flavor.name")
    nominal = serializers.SerializerMethodField(help_text="By resource; null is unlimited.")
    missing = serializers.ListField(
        child=serializers.CharField(),
        help_text="Resources of which a job with one GPU can never get enough.",
    )

    def get_nominal(self, pool: Any) -> dict[str, int | None]:
        return {resource.value: amount for resource, amount in pool.amounts.items()}


class TeamSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="workspace.pk")
    workspace = serializers.CharField(source="workspace.slug")
    queue = serializers.CharField(source="queue.name")
    members = serializers.SerializerMethodField(help_text="Roles by username.")
    invitations = TeamInvitationSerializer(many=True, allow_null=True)
    pools = TeamPoolResultSerializer(many=True)

    def get_members(self, team: Team) -> dict[str, str]:
        return {one.subject_name: one.role_name for one in team.members}


class TeamEffectSerializer(serializers.Serializer[Any]):
    """The answer of a dry run."""

    workspace = serializers.CharField(source="slug")
    invited = serializers.ListField(child=serializers.CharField(), help_text="Users that would be invited.")
    can_start = serializers.BooleanField(help_text="Whether a job with one GPU could start in some pool.")
    pools = TeamPoolResultSerializer(many=True)
    quota = QuotaEffectSerializer()


class TeamsView(PlatformView):
    """Creation of teams."""

    points: ClassVar = {"POST": Permission.TENANT_EDIT}
    handles_dry_run = True
    secret_fields = ("invitations",)

    def may_see_again(self) -> None:
        """Refuse a repeated request of a user who may no longer create tenants in the folder."""
        parent = self.request.data.get("parent") if isinstance(self.request.data, Mapping) else None
        place = tenant_get(viewer=self.viewer, tenant_id=uuid.UUID(str(parent)))
        permissions.require_permission(self.viewer, Permission.TENANT_EDIT, place)

    @extend_schema(
        operation_id="team_create",
        summary="Create a team: workspace, members, queue and quota",
        description=(
            "All or nothing. The quota is taken from the parent. Rejected with NO_JOB_STARTS if no job with "
            "one GPU could ever start, unless `allow_idle` is set. A dry run returns the quota, the users to "
            "be invited and the effect on jobs."
        ),
        parameters=[WriteQuery],
        request=TeamCreateSerializer,
        responses={
            200: TeamEffectSerializer,
            201: TeamSerializer,
            **problem_responses(400, 404, 409, 422),
        },
        tags=["tenants"],
    )
    def post(self, request: Request) -> Response:
        """Create the team, or with `dry_run` return the effect."""
        read_query(request, WriteQuery)
        values = read_body(TeamCreateSerializer, request)
        plan = self._plan(values)
        if dry_run_of(request):
            return Response(TeamEffectSerializer(team_preview(acting_user=self.viewer, plan=plan)).data)
        team = team_create(acting_user=self.viewer, plan=plan, address=console_address(request))
        headers = {"Location": f"/api/v1/tenants/{team.workspace.pk}"}
        return Response(TeamSerializer(team).data, status=201, headers=headers)

    def _plan(self, values: Mapping[str, Any]) -> TeamPlan:
        with named_by("parent"):
            parent = tenant_get(viewer=self.viewer, tenant_id=values["parent"])
            # The viewer has to see the quota that is divided, because the error names an unknown pool.
            permissions.require_permission(self.viewer, Permission.QUOTA_VIEW, parent)
        return TeamPlan(
            parent=parent,
            name=values["name"],
            slug=values["slug"],
            members=[TeamMember(**member) for member in values["members"]],
            pools=_pools(values["pools"]),
            queue=values["queue"],
            preset=Preset(values["preset"]),
            invite=values["invite"],
            allow_idle=values["allow_idle"],
        )


def _pools(items: Sequence[Mapping[str, Any]]) -> list[TeamPool]:
    flavors = list_flavors()
    return [
        TeamPool(
            flavor=select_flavor(flavors, item["flavor"], item["cluster"], f"pools.{index}."),
            gpus=item["gpus"],
            cpu=item.get("cpu", Keep.AS_IS),
            memory=item.get("memory", Keep.AS_IS),
            borrowing_limit=item["borrowing_limit"],
            lending_limit=item["lending_limit"],
        )
        for index, item in enumerate(items)
    ]
