"""`…/usage/preemptions`: the preemptions of a month by workspace, rule and beneficiary, and their cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core import clock
from telemetry.usage.figures import to_hours
from telemetry.usage.periods import Period
from telemetry.usage.preemptions import (
    PREEMPTION_RULES,
    PreemptedBy,
    PreemptionRow,
    preemption_report,
)
from telemetry.usage.report import report_period
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView, WorkspaceView
from tenants.api.requests.query import QuerySerializer, read_query
from tenants.api.responses.schema import problem_responses

_RULES: Final = (
    "Counts runs that ended in the month. `lost_gpu_hours` is the work since the last checkpoint. `by` is "
    "`own` for a job of the same workspace, `tenant` for a tenant whose jobs you can view, `other` for "
    "another tenant, `unknown` if the preempting job was deleted. Requires `job.view`."
)


class PreemptionsQuery(QuerySerializer):
    """The month and time zone of a summary of preemptions."""

    month = serializers.CharField(
        required=False, default="", max_length=7, help_text="YYYY-MM; default: the current month."
    )
    time_zone = serializers.CharField(
        required=False,
        default="",
        max_length=60,
        help_text="IANA name; the month follows its clocks. Default: ALLOTMENT_REPORT_TIME_ZONE.",
    )


class PreemptionRowSerializer(serializers.Serializer[Any]):
    """Preemptions of one workspace by one rule for one beneficiary."""

    workspace = serializers.CharField()
    rule = serializers.ChoiceField(choices=sorted(PREEMPTION_RULES))
    by = serializers.ChoiceField(choices=[item.value for item in PreemptedBy])
    by_tenant = serializers.CharField(allow_null=True, help_text="Slug; only with `by: tenant`.")
    preemptions = serializers.IntegerField()
    lost_gpu_hours = serializers.FloatField()


class PreemptionsSerializer(serializers.Serializer[Any]):
    """The preemptions of a month; those that cost most come first."""

    month = serializers.CharField()
    time_zone = serializers.CharField()
    preemptions = serializers.IntegerField()
    lost_gpu_hours = serializers.FloatField()
    rows = PreemptionRowSerializer(many=True)


class PreemptedUserSerializer(serializers.Serializer[Any]):
    user = serializers.CharField()
    preemptions = serializers.IntegerField()
    lost_gpu_hours = serializers.FloatField()


class WorkspacePreemptionsSerializer(PreemptionsSerializer):
    """The preemptions of a workspace in a month, and the same by user."""

    users = PreemptedUserSerializer(many=True)


def _body(period: Period, rows: Sequence[PreemptionRow]) -> dict[str, Any]:
    return {
        "month": f"{period.month:%Y-%m}",
        "time_zone": period.zone.key,
        "preemptions": sum(row.count for row in rows),
        "lost_gpu_hours": float(to_hours(sum(row.lost for row in rows))),
        "rows": [
            {
                "workspace": row.workspace.slug,
                "rule": row.rule,
                "by": row.by,
                "by_tenant": row.tenant.slug if row.tenant else None,
                "preemptions": row.count,
                "lost_gpu_hours": float(to_hours(row.lost)),
            }
            for row in rows
        ],
    }


def _period(query: dict[str, Any]) -> Period:
    return report_period(query["month"], query["time_zone"], now=clock.now())


class WorkspacePreemptionsView(WorkspaceView):
    """The preemptions of a workspace in a month."""

    points: ClassVar = {"GET": Permission.JOB_VIEW}

    @extend_schema(
        operation_id="usage_preemptions",
        summary="Preemptions of a workspace in a month",
        description=_RULES,
        parameters=[PreemptionsQuery],
        responses={200: WorkspacePreemptionsSerializer, **problem_responses(400, 404)},
        tags=["usage"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Return the sums of the month."""
        period = _period(read_query(request, PreemptionsQuery))
        report = preemption_report(self.viewer, period, tenant=self.workspace)
        body = _body(period, report.rows)
        body["users"] = [
            {"user": row.user, "preemptions": row.count, "lost_gpu_hours": float(to_hours(row.lost))}
            for row in report.users
        ]
        return Response(WorkspacePreemptionsSerializer(body).data)


class AdminPreemptionsView(PlatformView):
    """The preemptions of all tenants in sight in a month."""

    points: ClassVar = {"GET": Permission.JOB_VIEW}

    @extend_schema(
        operation_id="admin_usage_preemptions",
        summary="Preemptions of all tenants that you can view in a month",
        description=_RULES,
        parameters=[PreemptionsQuery],
        responses={200: PreemptionsSerializer, **problem_responses(400, 404)},
        tags=["usage"],
    )
    def get(self, request: Request) -> Response:
        """Return the sums of the month."""
        period = _period(read_query(request, PreemptionsQuery))
        body = _body(period, preemption_report(self.viewer, period).rows)
        return Response(PreemptionsSerializer(body).data)
