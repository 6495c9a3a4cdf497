"""`GET …/jobs/{job}/cost`: the GPU-hours and the cost of one job."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core import clock
from scheduling.api.jobs.views import JobView
from telemetry.usage.figures import to_hours
from telemetry.usage.job_costs import job_costs
from tenants.api.requests.query import NoQuery, read_query
from tenants.api.responses.schema import problem_responses


class JobCostSerializer(serializers.Serializer[Any]):
    gpu_hours = serializers.FloatField(help_text="Reserved by all attempts of the job.")
    amount = serializers.CharField(
        allow_null=True, help_text="Decimal number; null without GPUs or if a pool has no price."
    )
    currency = serializers.CharField()
    is_estimate = serializers.BooleanField(help_text="true until the job has ended.")
    read_at = serializers.DateTimeField()


class JobCostView(JobView):
    """The cost of one job."""

    @extend_schema(
        operation_id="job_cost",
        summary="GPU-hours and cost of a job",
        responses={200: JobCostSerializer, **problem_responses(404)},
        tags=["usage"],
    )
    def get(self, request: Request, ws: str, job: str) -> Response:
        """Return the GPU-hours of all attempts up to now, and their cost by the prices of the pools."""
        read_query(request, NoQuery)
        now, found = clock.now(), self.job
        costs = job_costs(self.viewer, [found.workspace], [found.pk], now=now)
        cost = costs.get(found.pk)
        body = {
            "gpu_hours": float(to_hours(cost.core_ms)) if cost else 0.0,
            "amount": None if cost is None or cost.amount is None else f"{cost.amount:f}",
            "currency": settings.ALLOTMENT_CURRENCY,
            "is_estimate": not found.is_terminal,
            "read_at": now,
        }
        return Response(JobCostSerializer(body).data)
