"""`GET …/startable-jobs`: the largest jobs that would start now."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from quotas.selectors.queues.queue import queue_get
from scheduling.services.jobs.startable import StartableJob, StartablePool, find_startable
from tenants.access.permissions import Permission
from tenants.api.requests.base import WorkspaceView
from tenants.api.requests.query import QuerySerializer, read_query
from tenants.api.responses.schema import problem_responses


class StartableQuery(QuerySerializer):
    queue = serializers.CharField(max_length=63, default="default", help_text="Name of the queue.")


class StartableJobSerializer(serializers.Serializer[Any]):
    """The largest job of one shape."""

    gpus = serializers.IntegerField(help_text="Whole GPUs of one task; 0 for a slice.")
    percent = serializers.IntegerField(help_text="Compute and memory of the slice; 0 for whole GPUs.")
    cpu_millicores = serializers.IntegerField(help_text="CPU of one task that was tried with it.")
    memory_mib = serializers.IntegerField(help_text="Memory of one task that was tried with it.")
    tasks = serializers.IntegerField(
        help_text="Tasks that start together; a lower bound if `reason` is empty."
    )
    reason = serializers.CharField(
        allow_blank=True,
        help_text=(
            "Reason why one task more wouldn't start. Empty: the largest number that is previewed starts, or "
            "the time of a preview ran out."
        ),
    )


class StartablePoolSerializer(serializers.Serializer[Any]):
    """GPUs of one model."""

    pools = serializers.ListField(child=serializers.CharField())
    gpu_model = serializers.CharField()
    free_gpus = serializers.IntegerField(help_text="Usable GPUs that no pod uses.")
    one_node = serializers.IntegerField(help_text="The most of them on one node.")
    jobs = StartableJobSerializer(many=True)


class StartableSerializer(serializers.Serializer[Any]):
    items = StartablePoolSerializer(many=True)


class StartableJobsView(WorkspaceView):
    """The largest jobs that would start now in one queue."""

    points: ClassVar = {"GET": Permission.JOB_SUBMIT}

    @extend_schema(
        operation_id="startable_jobs",
        summary="Largest jobs that would start now",
        description=(
            "By GPU model and GPUs per task. Each size is previewed by the engine, with quota, policies, CPU "
            "and memory, and with all jobs that wait. MIG pools are left out. Valid for this moment only."
        ),
        parameters=[StartableQuery],
        responses={200: StartableSerializer, **problem_responses(400, 404)},
        tags=["jobs"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Return one item per GPU model of the queue."""
        query = read_query(request, StartableQuery)
        queue = queue_get(self.viewer, self.workspace, query["queue"])
        found = find_startable(viewer=self.viewer, queue=queue)
        return Response(StartableSerializer({"items": [_pool_body(pool) for pool in found]}).data)


def _pool_body(pool: StartablePool) -> dict[str, Any]:
    return {
        "pools": [one.flavor.name for one in pool.pools],
        "gpu_model": pool.model,
        "free_gpus": sum(one.free for one in pool.pools),
        "one_node": max(one.one_node for one in pool.pools),
        "jobs": [_job_body(found) for found in pool.jobs],
    }


def _job_body(found: StartableJob) -> dict[str, Any]:
    shape = found.shape
    return {
        "gpus": shape.gpus,
        "percent": shape.percent,
        "cpu_millicores": shape.cpu,
        "memory_mib": shape.memory_mib,
        "tasks": found.tasks,
        "reason": found.reason,
    }
