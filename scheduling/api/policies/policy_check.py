"""`POST tenants/{tenant}/policy/check`: the jobs that another policy of a tenant would affect."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.policies.policy import StatementSerializer
from scheduling.policy.stating import PolicyStatement
from scheduling.services.policies.tenant_policy_effect import preview_tenant_policy
from tenants.access.permissions import Permission
from tenants.api.requests.place import PlaceView
from tenants.api.requests.query import NoQuery, read_query
from tenants.api.responses.schema import problem_responses


class AffectedJobSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="job_id")
    name = serializers.CharField()
    queue = serializers.CharField()
    gpus = serializers.IntegerField(source="cards", help_text="GPUs of all tasks.")


class AffectedJobsSerializer(serializers.Serializer[Any]):
    jobs = AffectedJobSerializer(many=True, help_text="Of workspaces whose jobs you can view.")
    others = serializers.IntegerField(help_text="Number of all other jobs.")


class PolicyCheckSerializer(serializers.Serializer[Any]):
    """Jobs that the current policy allows, and the new one doesn't."""

    changes = serializers.BooleanField(help_text="false: these are the current settings.")
    pending = AffectedJobsSerializer(help_text="Pending jobs outside the new limits. They stay as they are.")
    running = AffectedJobsSerializer(help_text="Running jobs outside the new limits. They stay as they are.")
    idle = AffectedJobsSerializer(help_text="Running jobs idle for longer than the new timeout.")
    slow = AffectedJobsSerializer(help_text="Starting jobs beyond the new pod start timeout.")
    left_out = serializers.IntegerField(help_text="Jobs that weren't evaluated.")


class PolicyCheckView(PlaceView):
    """The effect of a policy before it is saved."""

    points: ClassVar = {"POST": Permission.POLICY_EDIT}

    @extend_schema(
        operation_id="policy_check",
        summary="Preview the jobs that a new policy of a tenant would affect",
        request=StatementSerializer,
        responses={200: PolicyCheckSerializer, **problem_responses(400, 404)},
        tags=["policies"],
    )
    def post(self, request: Request, **kwargs: Any) -> Response:
        """Compare the jobs of the tenant with the current policy and with this one."""
        read_query(request, NoQuery)
        tenant = self.tenant
        wanted = StatementSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        statement = PolicyStatement(**wanted.validated_data)
        found = preview_tenant_policy(acting_user=self.viewer, tenant=tenant, statement=statement)
        return Response(PolicyCheckSerializer(found).data)
