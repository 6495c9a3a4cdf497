"""The cell of the workload `kueue-baseline`: cohorts of queues that may borrow all quota of their cohort.

Each cohort is a workspace with its queues. Kueue's run places no pods, so nodes are as large as a cohort, and
only quota is measured. Run as `python -m benchmarks.pipeline.kueue_world COHORTS QUEUES NOMINAL BORROWING` in
the platform's environment; prints the access key.
"""

from __future__ import annotations

import json
import os
import sys

from django.core.management import call_command

from benchmarks.support.world import MEMORY_MIB, root_folder, build_simulated_cell  # isort: skip (it sets Django up)
from benchmarks.pipeline.kueue_shape import CLASSES
from clusters.models import Cell, Flavor
from foundation.core.actor import SYSTEM
from foundation.core.quantities import Resource
from quotas.models import PreemptOthers, PreemptWithin
from quotas.services.queues.queue import queue_create
from quotas.services.queues.queue_settings import queue_update
from quotas.services.quota import QuotaAmount, quota_set
from scheduling.services.policies.priority_class import priority_class_create
from scheduling.services.policies.priority_grant import priority_grant
from tenants.models import Role, Tenant, TenantKind, User
from tenants.services.access_key import access_key_create
from tenants.services.account import user_create
from tenants.services.member import member_set
from tenants.services.tenant import tenant_create


def build_world(cohorts: int, queues: int, nominal: int, borrowing: int) -> str:
    """Create the cell and return a bearer token of a user who may submit to every queue."""
    cell, flavor = build_simulated_cell(cohorts, queues * nominal)
    root = root_folder()
    for kind in CLASSES:
        made = priority_class_create(acting_user=SYSTEM, name=kind.name, value=kind.priority)
        priority_grant(acting_user=SYSTEM, tenant=root, priority_class=made)
    user: User = user_create(
        acting_user=SYSTEM, username="bench", password=os.urandom(16).hex(), must_change_password=False
    )
    for number in range(cohorts):
        slug = f"cohort-{number}"
        workspace = tenant_create(
            acting_user=SYSTEM, parent=root, kind=TenantKind.WORKSPACE, slug=slug, name=slug
        )
        member_set(acting_user=SYSTEM, user=user, tenant=workspace, role=Role.EDITOR)
        for queue in range(queues):
            _queue(cell, flavor, workspace, f"queue-{queue}", nominal, borrowing)
    return access_key_create(acting_user=SYSTEM, user=user, name="bench")[1]


def _queue(cell: Cell, flavor: Flavor, workspace: Tenant, name: str, nominal: int, borrowing: int) -> None:
    queue = queue_create(acting_user=SYSTEM, cell=cell, workspace=workspace, name=name, flavors=[flavor])
    each = {Resource.GPU_CARDS: 1, Resource.GPU_CORES: 100, Resource.GPU_MEMORY: MEMORY_MIB}
    amounts = [
        QuotaAmount(flavor, resource, nominal * size, borrowing * size) for resource, size in each.items()
    ]
    amounts += [QuotaAmount(flavor, resource, None) for resource in (Resource.CPU, Resource.MEMORY)]
    quota_set(acting_user=SYSTEM, node=queue.node, amounts=amounts, on_top=True)
    settings = {"within_queue": PreemptWithin.LOWER_PRIORITY, "reclaim": PreemptOthers.ANY}
    queue_update(acting_user=SYSTEM, queue=queue, values=settings)


if __name__ == "__main__":
    call_command("migrate", verbosity=0)
    sys.stdout.write(json.dumps({"token": build_world(*(int(word) for word in sys.argv[1:5]))}) + "\n")
