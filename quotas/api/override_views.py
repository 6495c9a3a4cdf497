"""Loans of quota between tenants."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core.quantities import Resource
from foundation.sql.versions import if_match
from foundation.web.listing import Column, ColumnKind
from quotas.api.request_serializers import EmptySerializer, check_count
from quotas.models import Override, OverrideAmount, OverrideState, QuotaNode
from quotas.selectors.changes.override import override_get, overrides_in_sight
from quotas.selectors.tables.quota_table import quota_node_get
from quotas.services.overrides.override import LoanAmount, override_create, override_end, override_move_end
from quotas.services.quota_amounts import find_flavor_of_cell
from quotas.services.quota_plan import AMOUNT_MAX
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView
from tenants.api.requests.bodies import StrictSerializer, answer_row, named_by, read_body
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import format_timestamp, list_of, list_response
from tenants.api.responses.schema import IF_MATCH, IF_MATCH_OPTIONAL, problem_responses

_RESOURCES = [resource.value for resource in Resource]


class PartySerializer(serializers.Serializer[Any]):
    node = serializers.UUIDField(source="pk")
    tenant = serializers.CharField(source="tenant.slug")
    name = serializers.CharField(source="tenant.name")
    queue = serializers.SerializerMethodField(help_text="Empty for the tenant's own quota.")

    def get_queue(self, node: Any) -> str:
        return str(node.queue.name) if node.is_queue else ""

    def to_representation(self, instance: QuotaNode) -> dict[str, Any]:
        return _party_row(instance)


def _party_row(node: QuotaNode) -> dict[str, Any]:
    """Return a side of a loan like `PartySerializer`, ten times as fast as its fields."""
    return {
        "node": str(node.pk),
        "tenant": node.tenant.slug,
        "name": node.tenant.name,
        "queue": node.queue.name if node.is_queue else "",
    }


class LentSerializer(serializers.Serializer[Any]):
    cluster = serializers.CharField(source="flavor.cluster.name")
    flavor = serializers.CharField(source="flavor.name")
    resource = serializers.ChoiceField(choices=_RESOURCES)
    amount = serializers.IntegerField()

    def to_representation(self, instance: OverrideAmount) -> dict[str, Any]:
        return _lent_row(instance)


def _lent_row(lent: OverrideAmount) -> dict[str, Any]:
    """Return an amount as `LentSerializer` describes it."""
    flavor = lent.flavor
    place = {"cluster": flavor.cluster.name, "flavor": flavor.name}
    return place | {"resource": lent.resource, "amount": lent.amount}


class OverrideSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    version = serializers.IntegerField(help_text="Version; equals the ETag.")
    created_at = serializers.DateTimeField()
    cell = serializers.CharField(source="cell.name")
    lender = PartySerializer()
    borrower = PartySerializer()
    amounts = LentSerializer(many=True)
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    state = serializers.ChoiceField(choices=OverrideState.choices)
    reason = serializers.CharField()
    by = serializers.CharField(source="actor_name")
    problem = serializers.CharField(help_text="Reason why the transfer hasn't started.")
    ended_at = serializers.DateTimeField(allow_null=True)
    ended_by = serializers.CharField()
    returned = serializers.DictField(
        child=serializers.IntegerField(), help_text="Amount returned, if less than the amount lent."
    )

    def to_representation(self, instance: Override) -> dict[str, Any]:
        return {
            "id": str(instance.pk),
            "version": instance.version,
            "created_at": format_timestamp(instance.created_at),
            "cell": instance.cell.name,
            "lender": _party_row(instance.lender),
            "borrower": _party_row(instance.borrower),
            "amounts": [_lent_row(lent) for lent in instance.amounts.all()],
            "starts_at": format_timestamp(instance.starts_at),
            "ends_at": format_timestamp(instance.ends_at),
            "state": instance.state,
            "reason": instance.reason,
            "by": instance.actor_name,
            "problem": instance.problem,
            "ended_at": format_timestamp(instance.ended_at),
            "ended_by": instance.ended_by,
            "returned": instance.returned,
        }


class LoanAmountSerializer(StrictSerializer):
    cluster = serializers.CharField(
        default="", max_length=63, help_text="Required if several clusters have the flavor."
    )
    flavor = serializers.CharField(max_length=63)
    resource = serializers.ChoiceField(choices=_RESOURCES)
    amount = serializers.IntegerField(min_value=1, max_value=AMOUNT_MAX)


class OverrideCreateSerializer(StrictSerializer):
    lender = serializers.UUIDField(help_text="Source quota node; lends its unassigned quota.")
    borrower = serializers.UUIDField(help_text="Target quota node.")
    amounts = LoanAmountSerializer(many=True, allow_empty=False)
    starts_at = serializers.DateTimeField(
        required=False, allow_null=True, default=None, help_text="null: immediately."
    )
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField(default="", allow_blank=True, max_length=500)

    def validate_amounts(self, amounts: Any) -> Any:
        return check_count(amounts)


class OverrideChangeSerializer(StrictSerializer):
    ends_at = serializers.DateTimeField(help_text="New end time.")


class OverridesQuery(ListQuery):
    columns: ClassVar = {
        "state": Column("state"),
        "lender": Column("lender.tenant.slug"),
        "borrower": Column("borrower.tenant.slug"),
        "starts_at": Column("starts_at", ColumnKind.TIME),
        "ends_at": Column("ends_at", ColumnKind.TIME),
    }


class OverridesView(PlatformView):
    """Loans in sight."""

    points = {"GET": Permission.QUOTA_VIEW, "POST": Permission.QUOTA_EDIT}

    @extend_schema(
        operation_id="override_list",
        summary="Temporary quota of tenants that you can view, newest first",
        parameters=[OverridesQuery],
        responses={200: list_of(OverrideSerializer), **problem_responses(400)},
        tags=["loans"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of temporary quotas."""
        with overrides_in_sight(self.viewer) as rows:
            return list_response(request, OverridesQuery, rows, OverrideSerializer)

    @extend_schema(
        operation_id="override_create",
        summary="Create temporary quota",
        description=("Quota returns automatically. Jobs above quota keep running until it is reclaimed."),
        request=OverrideCreateSerializer,
        responses={201: OverrideSerializer, **problem_responses(400, 404, 422)},
        tags=["loans"],
    )
    def post(self, request: Request) -> Response:
        """Plan a loan, and start it if its time has come."""
        read_query(request, NoQuery)
        values = read_body(OverrideCreateSerializer, request)
        with named_by("lender"):
            lender = quota_node_get(self.viewer, values["lender"])
        with named_by("borrower"):
            borrower = quota_node_get(self.viewer, values["borrower"])
        amounts = [
            LoanAmount(
                find_flavor_of_cell(lender.cell_id, item, f"amounts.{index}."),
                Resource(item["resource"]),
                item["amount"],
                f"amounts.{index}.",
            )
            for index, item in enumerate(values["amounts"])
        ]
        made = override_create(
            acting_user=self.viewer,
            lender=lender,
            borrower=borrower,
            amounts=amounts,
            starts_at=values["starts_at"],
            ends_at=values["ends_at"],
            reason=values["reason"],
        )
        return answer_row(
            OverrideSerializer, override_get(self.viewer, made.pk), location=f"{request.path}/{made.pk}"
        )


class OverrideView(PlatformView):
    """One loan."""

    points = {"GET": Permission.QUOTA_VIEW, "PATCH": Permission.QUOTA_EDIT}

    @extend_schema(
        operation_id="override_get",
        summary="Get a temporary quota",
        responses={200: OverrideSerializer, **problem_responses(400, 404)},
        tags=["loans"],
    )
    def get(self, request: Request, override: uuid.UUID) -> Response:
        """Return the temporary quota."""
        read_query(request, NoQuery)
        return answer_row(OverrideSerializer, override_get(self.viewer, override))

    @extend_schema(
        operation_id="override_move_end",
        summary="Change the end time of a temporary quota",
        description="Rejected if the source has no unassigned quota in the new period.",
        parameters=[IF_MATCH],
        request=OverrideChangeSerializer,
        responses={200: OverrideSerializer, **problem_responses(400, 404, 409, 422)},
        tags=["loans"],
    )
    def patch(self, request: Request, override: uuid.UUID) -> Response:
        """Set another end for a loan that has not ended."""
        read_query(request, NoQuery)
        found = override_get(self.viewer, override)
        expected = if_match(request)
        body = read_body(OverrideChangeSerializer, request)
        ends_at = body["ends_at"]
        override_move_end(acting_user=self.viewer, override=found, ends_at=ends_at, version=expected)
        return answer_row(OverrideSerializer, override_get(self.viewer, override))


class OverrideEndView(PlatformView):
    """Ending a loan before its time."""

    points = {"POST": Permission.QUOTA_EDIT}

    def may_see_again(self) -> None:
        """Check that the user may still see the loan. Raises: NotFound."""
        override_get(self.viewer, self.kwargs["override"])

    @extend_schema(
        operation_id="override_end",
        summary="End a temporary quota, or cancel one that hasn't started",
        parameters=[IF_MATCH_OPTIONAL],
        request=EmptySerializer,
        responses={200: OverrideSerializer, **problem_responses(400, 404, 409, 412)},
        tags=["loans"],
    )
    def post(self, request: Request, override: uuid.UUID) -> Response:
        """Return the quota."""
        read_query(request, NoQuery)
        found = override_get(self.viewer, override)
        read_body(EmptySerializer, request)
        expected = if_match(request, required=False)
        override_end(acting_user=self.viewer, override=found, version=expected)
        return answer_row(OverrideSerializer, override_get(self.viewer, override))
