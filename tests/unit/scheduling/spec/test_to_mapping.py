"""A stored job, written out and read again, asks for the same."""

from __future__ import annotations

import pytest

from scheduling.job_file import parse_job, to_mapping
from scheduling.models import GpuRequestMode
from tests.builders import jobs
from tests.builders.world import world


@pytest.mark.django_db
def test_what_is_written_out_reads_back_the_same() -> None:
    w = world()
    roles = [
        jobs.RoleOf(name="master", cpu=1500, models=("A100-40G",)),
        jobs.RoleOf(
            name="worker",
            replicas=4,
            min_replicas=2,
            cards=1,
            mode=GpuRequestMode.SLICE,
            cores=30,
            gpu_memory=2048,
        ),
        jobs.RoleOf(name="logger", cards=0),
    ]
    job = jobs.job(w.queue, w.editor, roles=roles, environment={"A": "b"}, max_run_s=60)

    spec = parse_job(to_mapping(job))

    assert spec.name == job.name
    assert spec.min_available == job.min_available
    assert spec.max_run_s == 60
    assert spec.environment == {"A": "b"}
    assert [(r.name, r.replicas, r.min_replicas, r.cpu_millicores) for r in spec.roles] == [
        ("master", 1, 1, 1500),
        ("worker", 4, 2, 1000),
        ("logger", 1, 1, 1000),
    ]
    master, worker, logger = (role.gpu for role in spec.roles)
    assert master is not None and master.models == ("A100-40G",)
    assert worker is not None and (worker.cores, worker.memory_mib) == (30, 2048)
    assert logger is None
