"""A cell with one real cluster, and teams that share each of its flavors.

Run as `python -m benchmarks.kube.world KUBECONFIG TEAM=CARDS[:BORROWING] …` in the platform's environment:
each team has a nominal quota of so many GPUs of every flavor and may borrow up to BORROWING, by default
without limit. Prints the access key of a user who may submit for every team, with the priority classes
`normal` and `high`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from django.core.management import call_command

from benchmarks.support.world import root_folder  # isort: skip (it sets Django up)
from clusters.models import BackendKind, Cell, Flavor
from clusters.services.cluster import cluster_add
from clusters.services.flavor import flavor_add, flavors_found
from foundation.core.actor import SYSTEM
from foundation.core.quantities import Resource
from quotas.services.queues.queue import queue_create
from quotas.services.quota import QuotaAmount, quota_set
from scheduling.models import PriorityClass
from scheduling.services.policies.priority_grant import priority_grant
from tenants.models import Role, Tenant, TenantKind, User
from tenants.services.access_key import access_key_create
from tenants.services.account import user_create
from tenants.services.member import member_set
from tenants.services.tenant import tenant_create


def build_world(kubeconfig: str, teams: Sequence[str]) -> str:
    """Create the cell and return the bearer token."""
    cell, _ = Cell.unscoped.get_or_create(name="default")
    connection = {"kind": "kubeconfig", "path": kubeconfig}
    cluster = cluster_add(
        acting_user=SYSTEM, cell=cell, name="real", backend=BackendKind.KUBERNETES, connection=connection
    )
    plans = flavors_found(acting_user=SYSTEM, cluster=cluster)
    flavors = [flavor_add(acting_user=SYSTEM, cluster=cluster, plan=plan) for plan in plans]
    root = root_folder()
    priority_grant(acting_user=SYSTEM, tenant=root, priority_class=PriorityClass.unscoped.get(name="high"))
    user: User = user_create(
        acting_user=SYSTEM, username="bench", password=os.urandom(16).hex(), must_change_password=False
    )
    for team in teams:
        slug, _, amounts = team.partition("=")
        workspace = tenant_create(
            acting_user=SYSTEM, parent=root, kind=TenantKind.WORKSPACE, slug=slug, name=slug
        )
        member_set(acting_user=SYSTEM, user=user, tenant=workspace, role=Role.EDITOR)
        nominal, _, borrowing = amounts.partition(":")
        _queue(cell, flavors, workspace, int(nominal), int(borrowing) if borrowing else None)
    return access_key_create(acting_user=SYSTEM, user=user, name="bench")[1]


def _queue(
    cell: Cell, flavors: Sequence[Flavor], workspace: Tenant, nominal: int, borrowing: int | None
) -> None:
    queue = queue_create(acting_user=SYSTEM, cell=cell, workspace=workspace, name="default", flavors=flavors)
    amounts = []
    for flavor in flavors:
        each = {Resource.GPU_CARDS: 1, Resource.GPU_CORES: 100, Resource.GPU_MEMORY: flavor.card_memory_mib}
        for resource, size in each.items():
            limit = None if borrowing is None else borrowing * size
            amounts.append(QuotaAmount(flavor, resource, nominal * size, limit))
        amounts += [QuotaAmount(flavor, resource, None) for resource in (Resource.CPU, Resource.MEMORY)]
    quota_set(acting_user=SYSTEM, node=queue.node, amounts=amounts, on_top=True)


if __name__ == "__main__":
    call_command("migrate", verbosity=0)
    token = build_world(sys.argv[1], sys.argv[2:])
    sys.stdout.write(json.dumps({"token": token}) + "\n")
