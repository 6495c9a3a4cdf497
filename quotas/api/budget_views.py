"""Budgets of GPU-hours: read below `workspaces/{ws}/`, set below `admin/`."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core import clock
from foundation.sql.versions import if_match, version_header
from foundation.web.listing import Column, ColumnKind
from quotas.models import BudgetAction
from quotas.models.budget import THRESHOLDS
from quotas.selectors.pools.flavor import list_flavors
from quotas.selectors.tables.quota_table import tenant_get
from quotas.selectors.tenants.budget import (
    BUDGET_COLUMNS,
    BudgetUse,
    budget_get,
    budget_list,
    budget_uses,
    gpu_hours_by_month,
    workspace_budgets,
)
from quotas.services.budget import HOURS_MAX, STEPS_MAX, budget_change, budget_create, budget_delete
from quotas.services.quota_amounts import select_flavor
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView, WorkspaceView
from tenants.api.requests.bodies import StrictSerializer, named_by, read_body
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import IF_MATCH, problem_responses


class BudgetSerializer(serializers.Serializer[Any]):
    """A budget with its usage in the current calendar month (UTC)."""

    id = serializers.UUIDField(source="budget.pk")
    version = serializers.IntegerField(source="budget.version", help_text="Version; equals the ETag.")
    tenant = serializers.CharField(
        source="budget.tenant.slug", help_text="Applies to the tenant and its children."
    )
    name = serializers.CharField(source="budget.tenant.name")
    flavor = serializers.CharField(
        source="budget.flavor.name", default=None, allow_null=True, help_text="null: all pools."
    )
    cluster = serializers.CharField(source="budget.flavor.cluster.name", default=None, allow_null=True)
    month = serializers.DateField(help_text="First day of the month.")
    gpu_hours = serializers.IntegerField(source="budget.gpu_hours")
    used_gpu_hours = serializers.FloatField(source="used_hours")
    percent = serializers.IntegerField()
    state = serializers.ChoiceField(choices=["ok", "warning", "exhausted"])
    thresholds = serializers.ListField(source="budget.thresholds", child=serializers.IntegerField())
    action = serializers.ChoiceField(source="budget.action", choices=BudgetAction.choices)

    def to_representation(self, instance: BudgetUse) -> dict[str, Any]:
        budget, flavor = instance.budget, instance.budget.flavor
        return {
            "id": str(budget.pk),
            "version": budget.version,
            "tenant": budget.tenant.slug,
            "name": budget.tenant.name,
            "flavor": flavor.name if flavor else None,
            "cluster": flavor.cluster.name if flavor else None,
            "month": instance.month.isoformat(),
            "gpu_hours": budget.gpu_hours,
            "used_gpu_hours": instance.used_hours,
            "percent": instance.percent,
            "state": instance.state,
            "thresholds": budget.thresholds,
            "action": budget.action,
        }


class MonthUseSerializer(serializers.Serializer[Any]):
    month = serializers.DateField(help_text="First day of the month.")
    cluster = serializers.CharField(source="flavor.cluster.name")
    flavor = serializers.CharField(source="flavor.name")
    gpu_hours = serializers.FloatField(help_text="Allocated, used or idle; slices by their compute.")


class BudgetChangeSerializer(StrictSerializer):
    gpu_hours = serializers.IntegerField(required=False, min_value=0, max_value=HOURS_MAX)
    action = serializers.ChoiceField(required=False, choices=BudgetAction.choices)
    thresholds = serializers.ListField(
        required=False,
        max_length=STEPS_MAX,
        child=serializers.IntegerField(min_value=1, max_value=99),
        help_text="Alert thresholds in percent; each alerts once per month.",
    )


class BudgetCreateSerializer(BudgetChangeSerializer):
    tenant = serializers.CharField(max_length=63)
    flavor = serializers.CharField(
        max_length=63, required=False, allow_null=True, default=None, help_text="null: all pools."
    )
    cluster = serializers.CharField(
        default="", allow_blank=True, max_length=63, help_text="Required if several clusters have the flavor."
    )
    gpu_hours = serializers.IntegerField(min_value=0, max_value=HOURS_MAX)
    action = serializers.ChoiceField(default=BudgetAction.WARN.value, choices=BudgetAction.choices)


_BUDGETS: Any = list_of(BudgetSerializer)
"""One object for both lists of budgets, so that the schema names it once."""


class BudgetsQuery(ListQuery):
    columns: ClassVar = BUDGET_COLUMNS


class UsageQuery(ListQuery):
    columns: ClassVar = {
        "flavor": Column("flavor.name"),
        "gpu_hours": Column("gpu_hours", ColumnKind.NUMBER),
    }


class WorkspaceBudgetView(WorkspaceView):
    """The budgets that a workspace counts against."""

    points = {"GET": Permission.QUOTA_VIEW}

    @extend_schema(
        operation_id="budget_get",
        summary="Budgets of a workspace, own and inherited",
        parameters=[BudgetsQuery],
        responses={200: _BUDGETS, **problem_responses(400, 404)},
        tags=["budgets"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Return one page of budgets, parents first."""
        rows = workspace_budgets(self.viewer, self.workspace, now=clock.now())
        return list_response(request, BudgetsQuery, rows, BudgetSerializer)


class WorkspaceGpuHoursView(WorkspaceView):
    """The GPU-hours of a workspace."""

    points = {"GET": Permission.QUOTA_VIEW}

    @extend_schema(
        operation_id="gpu_hours_list",
        summary="GPU-hours of a workspace by month and flavor, newest first",
        parameters=[UsageQuery],
        responses={200: list_of(MonthUseSerializer), **problem_responses(400, 404)},
        tags=["budgets"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Return one page of months."""
        rows = gpu_hours_by_month(self.viewer, self.workspace, now=clock.now())
        return list_response(request, UsageQuery, rows, MonthUseSerializer)


class AdminBudgetsView(PlatformView):
    """Budgets in sight."""

    points = {"GET": Permission.QUOTA_VIEW, "POST": Permission.QUOTA_EDIT}

    @extend_schema(
        operation_id="admin_budget_list",
        summary="Budgets of tenants that you can view, with usage",
        parameters=[BudgetsQuery],
        responses={200: _BUDGETS, **problem_responses(400)},
        tags=["budgets"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of budgets, parents first."""
        return list_response(
            request, BudgetsQuery, budget_list(self.viewer, now=clock.now()), BudgetSerializer
        )

    @extend_schema(
        operation_id="admin_budget_create",
        summary="Create a budget of GPU-hours per calendar month",
        description=("Requires admin rights in a parent tenant. Usage of the current month is included."),
        request=BudgetCreateSerializer,
        responses={201: BudgetSerializer, **problem_responses(400, 404, 409)},
        tags=["budgets"],
    )
    def post(self, request: Request) -> Response:
        """Set it; at 100 % the action takes effect on what starts."""
        read_query(request, NoQuery)
        values = read_body(BudgetCreateSerializer, request)
        with named_by("tenant"):
            tenant = tenant_get(self.viewer, values["tenant"])
        flavor = None
        if values["flavor"] is not None:
            flavor = select_flavor(list_flavors(), values["flavor"], values["cluster"])
        made = budget_create(
            acting_user=self.viewer,
            tenant=tenant,
            flavor=flavor,
            gpu_hours=values["gpu_hours"],
            action=BudgetAction(values["action"]),
            thresholds=values.get("thresholds", THRESHOLDS),
        )
        answer = _shown(self, made.pk, status=201)
        answer.headers["Location"] = f"{request.path}/{made.pk}"
        return answer


class AdminBudgetView(PlatformView):
    """One budget."""

    points = {
        "GET": Permission.QUOTA_VIEW,
        "PATCH": Permission.QUOTA_EDIT,
        "DELETE": Permission.QUOTA_EDIT,
    }

    @extend_schema(
        operation_id="admin_budget_get",
        summary="Get a budget with its usage",
        responses={200: BudgetSerializer, **problem_responses(400, 404)},
        tags=["budgets"],
    )
    def get(self, request: Request, budget: uuid.UUID) -> Response:
        """Return the budget."""
        read_query(request, NoQuery)
        return _shown(self, budget)

    @extend_schema(
        operation_id="admin_budget_change",
        summary="Update a budget",
        parameters=[IF_MATCH],
        request=BudgetChangeSerializer,
        responses={200: BudgetSerializer, **problem_responses(400, 404)},
        tags=["budgets"],
    )
    def patch(self, request: Request, budget: uuid.UUID) -> Response:
        """Update the given fields; crossed thresholds alert again."""
        read_query(request, NoQuery)
        found = budget_get(self.viewer, budget)
        expected = if_match(request)
        body = read_body(BudgetChangeSerializer, request)
        budget_change(acting_user=self.viewer, budget=found, changes=body, version=expected)
        return _shown(self, budget)

    @extend_schema(
        operation_id="admin_budget_delete",
        summary="Delete a budget",
        parameters=[IF_MATCH],
        responses={204: None, **problem_responses(400, 404)},
        tags=["budgets"],
    )
    def delete(self, request: Request, budget: uuid.UUID) -> Response:
        """Delete the budget. Blocked jobs can start."""
        read_query(request, NoQuery)
        found = budget_get(self.viewer, budget)
        budget_delete(acting_user=self.viewer, budget=found, version=if_match(request))
        return Response(status=204)


def _shown(view: PlatformView, pk: uuid.UUID, *, status: int = 200) -> Response:
    found = budget_get(view.viewer, pk)
    use: BudgetUse = budget_uses([found], now=clock.now())[0]
    return Response(BudgetSerializer(use).data, status=status, headers=version_header(found))
