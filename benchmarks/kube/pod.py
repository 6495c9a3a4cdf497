"""The pod of a job with one GPU, as the platform creates it, for calls without the platform.

Run as `python -m benchmarks.kube.pod NAMESPACE`: prints the object as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "allotment.settings.test")
django.setup()

from clusters.backends.base import DeviceGrant, GangSpec, TaskRef, TaskSpec  # noqa: E402 (models load after set-up)
from clusters.backends.kubernetes.pods.pods import build_manifest  # noqa: E402
from clusters.gpu.named import named_by_node  # noqa: E402
from scheduling.execution.peers import peers_of  # noqa: E402
from scheduling.execution.task_specs import LABEL_ATTEMPT, LABEL_EPOCH, LABEL_JOB  # noqa: E402
from scheduling.models import Job, JobRole, Task  # noqa: E402
from scheduling.models.pod_names import gang_name, pod_name  # noqa: E402


def build_pod(namespace: str) -> dict[str, Any]:
    """Return the manifest of `build_manifest` for a task that is not stored."""
    job = Job(name="fill-0")
    role = JobRole(job=job, name="main", replicas=1, min_replicas=1, gpu_cards=1)
    task = Task(job=job, role=role, index=0)
    labels = {LABEL_JOB: str(job.pk), LABEL_ATTEMPT: "1"}
    spec = TaskSpec(
        ref=TaskRef(namespace, pod_name(job, 1, "main", 0)),
        node="",
        cpu_millicores=100,
        memory_mib=64,
        devices=(DeviceGrant(named_by_node("real", "node", 0), 100, 0),),
        image="bench:1",
        command=(),
        environment=peers_of(job, 1, [task]).task_environment(task),
        labels={**labels, LABEL_EPOCH: "1"},
        workspace=str(uuid.uuid4()),
        gang=GangSpec(gang_name(job, 1), 1, labels),
    )
    return build_manifest(spec, installation=str(uuid.uuid4()))


if __name__ == "__main__":
    json.dump(build_pod(sys.argv[1]), sys.stdout)
