"""`GET …/jobs/{job}/check`: the current gates and recommendations of a pending job."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core.quantities import Resource
from scheduling.api.jobs.serializers import HelpSerializer
from scheduling.api.jobs.views import JobView
from scheduling.engine import PreemptionGate, PreemptionResult
from scheduling.services.jobs.pending_check import PendingCheck, check_pending_job
from tenants.api.requests.query import QuerySerializer, read_query
from tenants.api.responses.schema import problem_responses


class CheckQuery(QuerySerializer):
    estimate = serializers.BooleanField(
        default=False, help_text="Add the expected start to recommendations after which the job still waits."
    )


class RoomSerializer(serializers.Serializer[Any]):
    fits = serializers.BooleanField()
    tasks = serializers.DictField(
        child=serializers.IntegerField(), help_text="Tasks by node; empty if not all tasks fit."
    )
    numbers = serializers.DictField(help_text="Numbers of the reason NO_ROOM if not all tasks fit.")


class PreemptionSerializer(serializers.Serializer[Any]):
    """Amounts are in the unit of the resource."""

    outcome = serializers.ChoiceField(choices=[result.value for result in PreemptionResult])
    flavor = serializers.CharField(allow_blank=True, help_text="Pool whose quota is short; empty if none is.")
    resource = serializers.ChoiceField(choices=[one.value for one in Resource], allow_null=True)
    short = serializers.IntegerField(allow_null=True, help_text="Missing quota; null if only nodes are full.")
    own_jobs = serializers.IntegerField(help_text="Jobs of the queue that can be preempted.")
    own_amount = serializers.IntegerField()
    other_jobs = serializers.IntegerField(help_text="Borrowing jobs of other queues that can be preempted.")
    other_amount = serializers.IntegerField()
    protected_jobs = serializers.IntegerField(help_text="Jobs in their guaranteed run time.")
    preempted_jobs = serializers.IntegerField(help_text="Jobs that would be preempted.")


class JobCheckSerializer(serializers.Serializer[Any]):
    """A gate is null if it doesn't apply."""

    evaluated = serializers.BooleanField(
        help_text="false: not pending, decided by the cluster's scheduler, or the check took too long."
    )
    starts = serializers.BooleanField(help_text="The job starts in the next cycle.")
    reason = serializers.CharField(allow_blank=True, help_text="Reason code; empty if the job starts.")
    room = RoomSerializer(allow_null=True, help_text="Node resources if there were enough quota.")
    preemption = PreemptionSerializer(allow_null=True)
    help = HelpSerializer(many=True, help_text="Recommendations, each tried with all other jobs.")


class JobCheckView(JobView):
    """A pending job checked now, with all other jobs."""

    # Cycles and estimates take seconds; no transaction stays open meanwhile.
    reads_together = False

    @extend_schema(
        operation_id="job_check",
        summary="Check the gates and the recommendations of a pending job",
        description="Runs one scheduling cycle, and one more for each recommendation, without any effect.",
        parameters=[CheckQuery],
        responses={200: JobCheckSerializer, **problem_responses(400, 404)},
        tags=["jobs"],
    )
    def get(self, request: Request, ws: str, job: str) -> Response:
        """Return the gates behind the stored reason, and the outcome of the job after each recommendation."""
        query = read_query(request, CheckQuery)
        checked, found = self.job, None
        if checked.is_waiting:
            found = check_pending_job(viewer=self.viewer, job=checked, estimate=query["estimate"])
        return Response(JobCheckSerializer(_body_of(found)).data)


def _body_of(found: PendingCheck | None) -> dict[str, Any]:
    if found is None:
        gates = {"room": None, "preemption": None}
        return {"evaluated": False, "starts": False, "reason": "", "help": [], **gates}
    room, gate = found.room, found.preemption
    return {
        "evaluated": True,
        "starts": found.starts,
        "reason": found.reason,
        "room": {"fits": bool(room.tasks), "tasks": room.tasks, "numbers": room.numbers} if room else None,
        "preemption": _gate_body(gate, found.pool) if gate else None,
        "help": found.help,
    }


def _gate_body(gate: PreemptionGate, pool: str) -> dict[str, Any]:
    names = ("short", "own_jobs", "own_amount", "other_jobs", "other_amount", "protected_jobs")
    return {name: getattr(gate, name) for name in names} | {
        "outcome": gate.result.value,
        "flavor": pool,
        "resource": gate.key.resource if gate.key else None,
        "preempted_jobs": len(gate.victims),
    }
