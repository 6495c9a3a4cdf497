"""Policies of tenants for jobs at and below them, and the effective policy."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.sql.versions import if_match, version_header
from foundation.web.listing import Column, ColumnKind
from scheduling.models import WorkspacePolicy
from scheduling.models.idle_stretch import IdleAction
from scheduling.models.workspace_policy import IDLE_WARN_S
from scheduling.policy import EffectivePolicy
from scheduling.policy.allowed import CHOICES
from scheduling.policy.fields import LIMITED
from scheduling.policy.stating import PolicyStatement
from scheduling.selectors.policies.workspace_policy import policy_effective, policy_list, policy_own
from scheduling.services.policies.workspace_policy import policy_delete, policy_set
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView, WorkspaceView
from tenants.api.requests.bodies import StrictSerializer
from tenants.api.requests.place import PlaceView
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import IF_MATCH, problem_responses
from tenants.models import Tenant

_LIMITS = "By field: " + ", ".join(LIMITED) + ". Limits are written as in a job file."


class StatementSerializer(StrictSerializer):
    """Policy of one tenant."""

    defaults = serializers.DictField(
        default=dict, help_text="Partial job file; `roles` is a single map applied to every role."
    )
    minimum = serializers.DictField(default=dict, help_text=_LIMITS)
    maximum = serializers.DictField(default=dict, help_text=_LIMITS)
    images = serializers.ListField(
        child=serializers.CharField(),
        default=None,
        allow_null=True,
        help_text="Patterns; `*` matches any text. null: all images.",
    )
    allowed = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        default=dict,
        help_text="Patterns of the values that a field may have, by field: " + ", ".join(CHOICES) + ".",
    )
    idle_timeout_s = serializers.IntegerField(
        default=None, allow_null=True, help_text="After this time with idle GPUs `idle_action` is taken."
    )
    idle_action = serializers.ChoiceField(
        choices=IdleAction.choices,
        default=IdleAction.SUSPEND,
        help_text="What happens to an idle job. The strictest of all tenants with an idle timeout applies.",
    )
    idle_warn_s = serializers.IntegerField(
        default=IDLE_WARN_S, help_text="The owner is warned this long before. At most half of the timeout."
    )
    start_limit_s = serializers.IntegerField(
        default=None,
        allow_null=True,
        help_text="Time limit for the pods of a job to start; 0 = no limit. Default: 600.",
    )


class LimitSerializer(serializers.Serializer[Any]):
    value = serializers.JSONField(help_text="As entered.")
    tenant = serializers.CharField(source="tenant.name", help_text="Tenant that defines the value.")


class ImagesSerializer(serializers.Serializer[Any]):
    patterns = serializers.ListField(child=serializers.CharField())
    tenant = serializers.CharField(source="tenant.name")


class EffectivePolicySerializer(serializers.Serializer[Any]):
    """Effective policy. An image must match a pattern of every entry of `images`, a value of every entry
    of `allowed`.
    """

    defaults = serializers.DictField()
    minimum = serializers.DictField(child=LimitSerializer())
    maximum = serializers.DictField(child=LimitSerializer())
    images = ImagesSerializer(many=True)
    allowed = serializers.DictField(child=ImagesSerializer(many=True))
    idle_timeout_s = LimitSerializer(allow_null=True)
    idle_action = serializers.CharField()
    idle_warn_s = serializers.IntegerField()
    start_limit_s = LimitSerializer(allow_null=True, help_text="null: not set; the default of 600 applies.")


class PolicySerializer(serializers.Serializer[Any]):
    """Own policy of a tenant."""

    tenant = serializers.CharField(source="tenant.slug")
    defaults = serializers.DictField()
    minimum = serializers.DictField()
    maximum = serializers.DictField()
    images = serializers.ListField(child=serializers.CharField(), allow_null=True)
    allowed = serializers.DictField(child=serializers.ListField(child=serializers.CharField()))
    idle_timeout_s = serializers.IntegerField(allow_null=True)
    idle_action = serializers.CharField()
    idle_warn_s = serializers.IntegerField()
    start_limit_s = serializers.IntegerField(allow_null=True)

    def to_representation(self, instance: WorkspacePolicy) -> dict[str, Any]:
        return {
            "tenant": instance.tenant.slug,
            "defaults": instance.defaults,
            "minimum": instance.minimum,
            "maximum": instance.maximum,
            "images": instance.images,
            "allowed": instance.allowed,
            "idle_timeout_s": instance.idle_timeout_s,
            "idle_action": instance.idle_action,
            "idle_warn_s": instance.idle_warn_s,
            "start_limit_s": instance.start_limit_s,
        }


class TenantPolicySerializer(PolicySerializer):
    effective = serializers.SerializerMethodField(help_text="Including inherited values.")

    def to_representation(self, instance: WorkspacePolicy) -> dict[str, Any]:
        return super().to_representation(instance) | {"effective": self.get_effective(instance)}

    @extend_schema_field(EffectivePolicySerializer)
    def get_effective(self, policy: Any) -> Any:
        return EffectivePolicySerializer(self.context["effective"]).data


class PoliciesQuery(ListQuery):
    columns: ClassVar = {
        "tenant": Column("tenant.slug"),
        "idle_timeout_s": Column("idle_timeout_s", ColumnKind.NUMBER),
        "idle_action": Column("idle_action"),
        "idle_warn_s": Column("idle_warn_s", ColumnKind.NUMBER),
        "start_limit_s": Column("start_limit_s", ColumnKind.NUMBER),
    }


class PoliciesView(PlatformView):
    """All policies of tenants that the caller may view."""

    points: ClassVar = {"GET": Permission.TENANT_VIEW}

    @extend_schema(
        operation_id="policy_list",
        summary="Policies of tenants that you can view",
        parameters=[PoliciesQuery],
        responses={200: list_of(PolicySerializer), **problem_responses(400)},
        tags=["policies"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of policies by tenant."""
        return list_response(request, PoliciesQuery, policy_list(viewer=self.viewer), PolicySerializer)


class TenantPolicyView(PlaceView):
    """The policy of one tenant."""

    points: ClassVar = {
        "GET": Permission.TENANT_VIEW,
        "PUT": Permission.POLICY_EDIT,
        "DELETE": Permission.POLICY_EDIT,
    }

    @extend_schema(
        operation_id="policy_get",
        summary="Get the policy of a tenant and the effective values",
        responses={200: TenantPolicySerializer, **problem_responses(400, 404)},
        tags=["policies"],
    )
    def get(self, request: Request, **kwargs: Any) -> Response:
        """Return the policy. A policy that was never set is empty and has version 0."""
        read_query(request, NoQuery)
        return self._shown(self.tenant)

    @extend_schema(
        operation_id="policy_set",
        summary="Replace the policy of a tenant",
        description=(
            "Replaces the whole policy. Child tenants can only tighten inherited limits. Existing "
            "jobs aren't affected."
        ),
        parameters=[IF_MATCH],
        request=StatementSerializer,
        responses={200: TenantPolicySerializer, **problem_responses(400, 404, 409)},
        tags=["policies"],
    )
    def put(self, request: Request, **kwargs: Any) -> Response:
        """Replace the policy."""
        read_query(request, NoQuery)
        tenant, expected = self.tenant, if_match(request)
        wanted = StatementSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        statement = PolicyStatement(**wanted.validated_data)
        policy_set(acting_user=self.viewer, tenant=tenant, statement=statement, expected=expected)
        return self._shown(tenant)

    @extend_schema(
        operation_id="policy_delete",
        summary="Delete the policy of a tenant",
        parameters=[IF_MATCH],
        responses={204: None, **problem_responses(404, 409)},
        tags=["policies"],
    )
    def delete(self, request: Request, **kwargs: Any) -> Response:
        """Delete the policy. Inherited policies still apply."""
        read_query(request, NoQuery)
        policy_delete(acting_user=self.viewer, tenant=self.tenant, expected=if_match(request))
        return Response(status=204)

    def _shown(self, tenant: Tenant) -> Response:
        policy = policy_own(viewer=self.viewer, tenant=tenant)
        effective = policy_effective(viewer=self.viewer, tenant=tenant)
        body = TenantPolicySerializer(policy, context={"effective": effective}).data
        return Response(body, headers=version_header(policy))


class WorkspacePolicyView(WorkspaceView):
    """The policy that applies to jobs of a workspace."""

    points: ClassVar = {"GET": Permission.TENANT_VIEW}

    @extend_schema(
        operation_id="workspace_policy_get",
        summary="Effective policy of a workspace: limits and defaults",
        responses={200: EffectivePolicySerializer, **problem_responses(400, 404)},
        tags=["policies"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Return the combined policy of the workspace and every folder above it."""
        read_query(request, NoQuery)
        effective: EffectivePolicy = policy_effective(viewer=self.viewer, tenant=self.workspace)
        return Response(EffectivePolicySerializer(effective).data)
