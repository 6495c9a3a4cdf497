"""`GET …/startable-jobs`: the largest jobs that would start now."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core import clock
from quotas.selectors.queues.queue import queue_get
from scheduling.services.jobs.startable import (
    StartableJob,
    StartablePool,
    find_startable,
    list_larger_blocks,
)
from scheduling.services.start_prediction.free_blocks import (
    EndingBlock,
    find_ending_block,
    list_free_nodes,
)
from tenants.access.permissions import Permission
from tenants.api.requests.base import WorkspaceView
from tenants.api.requests.query import QuerySerializer, read_query
from tenants.api.responses.schema import problem_responses


class StartableQuery(QuerySerializer):
    queue = serializers.CharField(max_length=63, default="default", help_text="Name of the queue.")
    blocks = serializers.BooleanField(
        default=False, help_text="Add the free GPUs by node, and what would join them to larger blocks."
    )


class JoinedBlockSerializer(serializers.Serializer[Any]):
    """A number of GPUs that the pool has free, but no node, and what would join them on one node."""

    gpus = serializers.IntegerField()
    preempted_jobs = serializers.IntegerField(
        allow_null=True,
        help_text=(
            "Jobs that would be moved or preempted if such a job were submitted; 0 if it would wait. null: "
            "not previewed, since the time ran out."
        ),
    )
    node = serializers.CharField(allow_null=True, help_text="null: expected ends of jobs are unknown.")
    expected_at = serializers.DateTimeField(allow_null=True, help_text="Median of the time when jobs end.")
    late_at = serializers.DateTimeField(allow_null=True, help_text="By then in 9 of 10 cases.")
    jobs = serializers.ListField(
        child=serializers.CharField(), help_text="Names of the jobs that end first; those that you can view."
    )
    other_jobs = serializers.IntegerField(help_text="Number of the other jobs that end first.")


class FreeNodeSerializer(serializers.Serializer[Any]):
    node = serializers.CharField()
    gpus = serializers.IntegerField()


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
    nodes = FreeNodeSerializer(many=True, help_text="Nodes with free GPUs, most first. With `blocks`.")
    blocks = JoinedBlockSerializer(many=True, help_text="With `blocks`.")


class StartableSerializer(serializers.Serializer[Any]):
    items = StartablePoolSerializer(many=True)


class StartableJobsView(WorkspaceView):
    """The largest jobs that would start now in one queue."""

    points: ClassVar = {"GET": Permission.JOB_SUBMIT}
    # Previews take seconds; no transaction stays open meanwhile.
    reads_together = False

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
        items = [_pool_body(pool) | self._blocks_body(pool, asked=query["blocks"]) for pool in found]
        return Response(StartableSerializer({"items": items}).data)

    def _blocks_body(self, pool: StartablePool, *, asked: bool) -> dict[str, Any]:
        viewer, now = self.viewer, clock.now()
        nodes = list_free_nodes(pool.pools) if asked else []
        blocks = [
            _block_body(job, find_ending_block(viewer=viewer, pools=pool.pools, gpus=job.shape.gpus, now=now))
            for job in (list_larger_blocks(pool) if asked else ())
        ]
        return {"nodes": nodes, "blocks": blocks}


def _block_body(job: StartableJob, block: EndingBlock | None) -> dict[str, Any]:
    jobs = block.jobs if block else None
    return {
        "gpus": job.shape.gpus,
        "preempted_jobs": len(job.refused.preempted) if job.refused else None,
        "node": block.node if block else None,
        "expected_at": block.expected_at if block else None,
        "late_at": block.late_at if block else None,
        "jobs": [one.name for one in jobs.seen] if jobs else [],
        "other_jobs": sum(jobs.by_tenant.values()) + jobs.rest if jobs else 0,
    }


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
