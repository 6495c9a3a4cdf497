"""`GET …/jobs/{job}/explain`: the status of a job and its reason."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.sql.versions import version_header
from scheduling.api.jobs.serializers import ExplanationSerializer
from scheduling.api.jobs.views import JobView
from scheduling.models import Job
from scheduling.selectors.events.event import job_cause
from scheduling.selectors.jobs.job import job_promised_until
from scheduling.selectors.pending.decision import decision_latest
from scheduling.selectors.pending.pool_holders import list_pool_holders
from tenants.api.requests.query import NoQuery, read_query
from tenants.api.responses.schema import problem_responses
from tenants.models import User


class JobExplainView(JobView):
    """The status of one job and the engine's latest decisions."""

    @extend_schema(
        operation_id="job_explain",
        summary="Pending reason of a job and the scheduler's latest decision",
        responses={200: ExplanationSerializer, **problem_responses(404)},
        tags=["jobs"],
    )
    def get(self, request: Request, ws: str, job: str) -> Response:
        """Return the state, the reason with its numbers and recommendations, the holders of what the job
        lacks, the queue position and the latest decisions.
        """
        read_query(request, NoQuery)
        body = read_explanation(self.viewer, self.job)
        return Response(ExplanationSerializer(body).data, headers=version_header(self.job))


def read_explanation(viewer: User, job: Job) -> dict[str, Any]:
    """Return what `ExplanationSerializer` describes. Raises: NotFound, PermissionDenied."""
    return {
        "job": job,
        "promised_until": job_promised_until(job=job),
        "cause": job_cause(viewer=viewer, job=job) or None,
        "decisions": decision_latest(viewer=viewer, job=job),
        "held_by": list_pool_holders(viewer=viewer, job=job),
    }
