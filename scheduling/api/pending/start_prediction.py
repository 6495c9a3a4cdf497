"""`GET …/jobs/{job}/expected-start`: the expected start of a pending job, and the basis of the estimate."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core import clock
from scheduling.api.jobs.views import JobView
from scheduling.prediction.run_times import RunGroup
from scheduling.selectors.pending.start_prediction import (
    COUNTED,
    ExpectedStart,
    NoForecast,
    job_expected_start,
)
from tenants.api.requests.query import NoQuery, read_query
from tenants.api.responses.schema import problem_responses

_BEYOND = "null: after `horizon_at`."


class StartRangeSerializer(serializers.Serializer[Any]):
    """Bounds of the start. A bound that is null is later than `horizon_at`."""

    earliest = serializers.DateTimeField(
        allow_null=True, help_text=f"Lower bound of the 90 % range. {_BEYOND}"
    )
    likely_earliest = serializers.DateTimeField(
        allow_null=True, help_text=f"Lower bound of the 50 % range. {_BEYOND}"
    )
    median = serializers.DateTimeField(allow_null=True, help_text=_BEYOND)
    likely_latest = serializers.DateTimeField(
        allow_null=True, help_text=f"Upper bound of the 50 % range. {_BEYOND}"
    )
    latest = serializers.DateTimeField(allow_null=True, help_text=f"Upper bound of the 90 % range. {_BEYOND}")
    horizon_at = serializers.DateTimeField(help_text="Starts after this time are not predicted.")
    made_at = serializers.DateTimeField(
        help_text="Time of the prediction; renewed every 5 minutes at the earliest. Bounds before now have "
        "passed."
    )


class StartBasisSerializer(serializers.Serializer[Any]):
    """Basis of a prediction."""

    futures = serializers.IntegerField(help_text="Simulated futures.")
    runs = serializers.IntegerField(
        help_text="Finished runs from which the job's own run time was estimated."
    )
    run_group = serializers.ChoiceField(
        choices=[level.value for level in RunGroup], help_text="What these runs have in common with the job."
    )
    outcomes = serializers.IntegerField(
        help_text="Earlier predictions in the queue used to calibrate the range."
    )


class HeldRangesSerializer(serializers.Serializer[Any]):
    """Outcomes of earlier predictions in the job's queue."""

    days = serializers.SerializerMethodField()
    jobs = serializers.IntegerField(help_text="Predicted jobs that have started.")
    held = serializers.IntegerField(help_text="Of these, started within their 90 % range.")
    likely_held = serializers.IntegerField(help_text="Of these, started within their 50 % range.")

    def get_days(self, _found: Any) -> int:
        """Return the number of days whose outcomes count."""
        return COUNTED.days


class ExpectedStartSerializer(serializers.Serializer[Any]):
    """Expected start; if `range` is null, `unknown` is the cause."""

    range = StartRangeSerializer(allow_null=True)
    basis = StartBasisSerializer(allow_null=True)
    unknown = serializers.ChoiceField(
        choices=[reason.value for reason in NoForecast],
        allow_null=True,
        help_text="Cause of a missing range.",
    )
    calibration = HeldRangesSerializer()


class JobExpectedStartView(JobView):
    """The expected start of one job."""

    @extend_schema(
        operation_id="job_expected_start",
        summary="Expected start of a pending job",
        description=(
            "Ranges in which the job starts with a probability of 90 % and 50 %, from simulated futures of "
            "the scheduling domain. An estimate, not a guarantee; `calibration` counts how often earlier "
            "ranges held."
        ),
        responses={200: ExpectedStartSerializer, **problem_responses(404)},
        tags=["jobs"],
    )
    def get(self, request: Request, ws: str, job: str) -> Response:
        """Return the latest prediction for the job's current wait."""
        read_query(request, NoQuery)
        found = job_expected_start(viewer=self.viewer, job=self.job, now=clock.now())
        return Response(ExpectedStartSerializer(_body_of(found)).data)


def _body_of(found: ExpectedStart) -> dict[str, Any]:
    names = ("earliest", "likely_earliest", "median", "likely_latest", "latest")
    prediction = found.prediction
    shown = dict(zip(names, found.bounds, strict=True)) if prediction else {}
    return {
        "range": shown | {"horizon_at": found.horizon_at, "made_at": prediction.made_at}
        if prediction
        else None,
        "basis": prediction,
        "unknown": found.why,
        "calibration": found.ranges,
    }
