"""The world of the journeys: a simulated cluster whose pools each belong to the teams of one journey.

Run as `python -m tests.e2e.journey_world` in the environment of a platform with tables; it prints an access
key, as `benchmarks.support.running` expects.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Final

import django

django.setup()

from django.db import transaction  # noqa: E402  (models load only after set-up)

from clusters.backends.registry import backend_for  # noqa: E402
from clusters.backends.simulated.seed import NodeGroup, build_cluster  # noqa: E402
from clusters.gpu.nvidia import PRODUCT_LABEL  # noqa: E402
from clusters.models import BackendKind, Cell, Cluster, Flavor, Node  # noqa: E402
from clusters.services.inventory import inventory_sync  # noqa: E402
from foundation.core import clock  # noqa: E402
from quotas.models import Queue  # noqa: E402
from scheduling.models import (  # noqa: E402
    Allocation,
    Attempt,
    Job,
    JobRole,
    JobState,
    PriorityClass,
    PriorityGrant,
    Task,
    TaskState,
)
from tenants.models import Role, User  # noqa: E402
from tests.builders import clusters, jobs, quotas, tenancy  # noqa: E402

SPEED: Final = 30.0
"""A pod prints three lines a second."""
MEMORY_MIB: Final = 40_960
POOLS: Final = (
    ("h100", "H100", 2, 8),
    ("a100", "A100", 1, 8),
    ("l40s", "L40S", 1, 2),
    ("v100", "V100", 1, 8),
)
RECORDED_JOBS: Final = 100


def build_world() -> None:
    """Make cluster, tenants, quotas and people."""
    cell = Cell.unscoped.get_or_create(name="default")[0]
    h100, a100, l40s, v100 = _build_pools(cell)
    jobs.priority_class()
    tenancy.platform_admin("boss")
    tenancy.platform_admin("bess")

    research = tenancy.folder("research")
    vision, speech = tenancy.workspace("vision", research), tenancy.workspace("speech", research)
    quotas.gpu_quota(quotas.quota_node(cell, research), h100, 10)
    quotas.queue(cell, vision, [h100])
    _limit_queue(Queue.unscoped.get(workspace=vision), h100, 4)
    quotas.queue(cell, speech, [h100], cards=2)
    quotas.gpu_quota(quotas.quota_node(cell, speech), h100, 0, borrowing_limit=0)
    tenancy.user("carl", research, Role.ADMIN)
    vic = tenancy.user("vic", vision, Role.EDITOR)
    tenancy.member(vic, speech, Role.EDITOR)

    printing = tenancy.workspace("printing", tenancy.folder("press"))
    quotas.queue(cell, printing, [l40s], cards=2)
    tenancy.member(vic, printing, Role.EDITOR)

    guild = tenancy.folder("guild")
    aurora, zephyr = tenancy.workspace("aurora", guild), tenancy.workspace("zephyr", guild)
    quotas.gpu_quota(quotas.quota_node(cell, guild), a100, 0)
    for place in (aurora, zephyr):
        quotas.queue(cell, place, [a100], cards=4)
    tenancy.user("aurora-ann", aurora, Role.EDITOR)
    tenancy.user("aurora-amy", aurora, Role.EDITOR)
    tenancy.user("zephyr-zoe", zephyr, Role.EDITOR)
    high = PriorityClass.unscoped.get_or_create(name="high", defaults={"value": 100})[0]
    PriorityGrant.unscoped.create(tenant=aurora, priority_class=high)

    _record_past(quotas.queue(cell, tenancy.workspace("archive"), [v100], cards=8), v100, vic)


def _build_pools(cell: Cell) -> list[Flavor]:
    cluster = Cluster.unscoped.create(cell=cell, name="sim", backend=BackendKind.SIMULATED)
    groups = [
        NodeGroup(prefix=f"{name}-", nodes=nodes, cards=cards, card_model=model, card_memory_mib=MEMORY_MIB)
        for name, model, nodes, cards in POOLS
    ]
    build_cluster(cluster, node_groups=groups, speed=SPEED)
    flavors = [
        clusters.flavor(
            cluster, name, card_model=model, card_memory_mib=MEMORY_MIB, node_selector={PRODUCT_LABEL: model}
        )
        for name, model, _nodes, _cards in POOLS
    ]
    inventory_sync(cluster=cluster, inventory=backend_for(cluster).read_inventory())
    return flavors


def _limit_queue(queue: Queue, flavor: Flavor, cards: int) -> None:
    """Give a queue quota and let it borrow nothing."""
    quotas.gpu_quota(queue.node, flavor, cards, borrowing_limit=0)


def _record_past(queue: Queue, flavor: Flavor, user: User) -> None:
    """Record jobs of a whole node and an hour each, submitted at once, that ran one after the other."""
    node, hour = Node.unscoped.get(flavor=flavor), timedelta(hours=1)
    begin = clock.now().replace(minute=0, second=0, microsecond=0) - (RECORDED_JOBS + 24) * hour
    made, roles, tasks, attempts, held = [], [], [], [], []
    for number in range(RECORDED_JOBS):
        since, until = begin + number * hour, begin + (number + 1) * hour
        job = Job(
            workspace=queue.workspace, queue=queue, name=f"past-{number}", state=JobState.SUCCEEDED,
            submitted_by=user, priority_class=PriorityClass.unscoped.get(name="normal"), priority=0,
            min_available=1, attempt_number=1, submitted_at=begin, admitted_at=since,
            started_at=since, finished_at=until,
        )  # fmt: skip
        role = JobRole(
            job=job, position=0, name="main", replicas=1, min_replicas=1, cpu_millicores=1000,
            memory_mib=1024, gpu_mode="whole", gpu_cards=8, gpu_cores=100, gpu_models=[],
        )  # fmt: skip
        task = Task(job=job, role=role, index=0, state=TaskState.SUCCEEDED)
        attempt = Attempt(
            job=job, number=1, epoch=1, admitted_at=since, started_at=since, ended_at=until, metered_at=until
        )
        allocation = Allocation(
            attempt=attempt, task=task, node=node, flavor=flavor, cpu_millicores=1000, memory_mib=1024,
            charge={"gpu.cards": 8, "gpu.cores": 800}, namespace="archive", pod_name=f"past-{number}",
            released_at=until, removed_at=until,
        )  # fmt: skip
        made.append(job)
        roles.append(role)
        tasks.append(task)
        attempts.append(attempt)
        held.append(allocation)
    Job.unscoped.bulk_create(made)
    JobRole.unscoped.bulk_create(roles)
    Task.unscoped.bulk_create(tasks)
    Attempt.unscoped.bulk_create(attempts)
    Allocation.unscoped.bulk_create(held)


if __name__ == "__main__":
    with transaction.atomic():
        build_world()
        key = tenancy.access_key(User.objects.get(username="vic"))
    sys.stdout.write(json.dumps({"token": key}) + "\n")
