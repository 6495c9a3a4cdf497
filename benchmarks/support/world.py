"""A cell with one large simulated cluster and one team, created through the platform's own services.

Run as `python -m benchmarks.support.world NODES CARDS SPEED DEMO_SPEED` in the platform's environment:
creates the tables and the rows, and prints the access key. With a DEMO_SPEED above 0 the demo's cluster and
teams are added.
"""

from __future__ import annotations

import json
import os
import sys

import django
from django.conf import settings
from django.core.management import call_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "allotment.settings.embedded")
django.setup()

from allotment.demo.setup import demo_setup  # noqa: E402 (models load only after set-up)
from clusters.backends.registry import backend_for  # noqa: E402
from clusters.backends.simulated.seed import NodeGroup, build_cluster  # noqa: E402
from clusters.models import BackendKind, Cell, Cluster, Flavor  # noqa: E402
from clusters.services.inventory import inventory_sync  # noqa: E402
from foundation.core.actor import SYSTEM  # noqa: E402
from foundation.core.quantities import Resource  # noqa: E402
from quotas.services.queues.queue import queue_create  # noqa: E402
from quotas.services.quota import QuotaAmount, quota_set  # noqa: E402
from tenants.models import Role, Tenant, TenantKind, User  # noqa: E402
from tenants.services.access_key import access_key_create  # noqa: E402
from tenants.services.account import user_create  # noqa: E402
from tenants.services.member import member_set  # noqa: E402
from tenants.services.tenant import tenant_create  # noqa: E402

MEMORY_MIB = 40_960


def build_world(nodes: int, cards: int, speed: float) -> str:
    """Create the world and return a bearer token of an editor of workspace `bench`."""
    cell, flavor = build_simulated_cell(nodes, cards, speed)
    root = root_folder()
    workspace = tenant_create(
        acting_user=SYSTEM, parent=root, kind=TenantKind.WORKSPACE, slug="bench", name="Bench"
    )
    queue = queue_create(acting_user=SYSTEM, cell=cell, workspace=workspace, name="default", flavors=[flavor])
    total = nodes * cards
    per_resource = {
        Resource.GPU_CARDS: total,
        Resource.GPU_CORES: 100 * total,
        Resource.GPU_MEMORY: MEMORY_MIB * total,
        Resource.CPU: None,
        Resource.MEMORY: None,
    }
    amounts = [QuotaAmount(flavor, resource, amount) for resource, amount in per_resource.items()]
    quota_set(acting_user=SYSTEM, node=queue.node, amounts=amounts, on_top=True)
    return _key(workspace)


def build_simulated_cell(nodes: int, cards: int, speed: float = 1.0) -> tuple[Cell, Flavor]:
    """Return a cell with one simulated cluster of one flavor, its inventory in rows."""
    cell, _ = Cell.unscoped.get_or_create(name="default")
    cluster = Cluster.unscoped.create(cell=cell, name="bench", backend=BackendKind.SIMULATED)
    group = NodeGroup(
        prefix="node-", nodes=nodes, cards=cards, card_model="A100-40G", card_memory_mib=MEMORY_MIB
    )
    build_cluster(cluster, node_groups=[group], speed=speed)
    flavor = Flavor.unscoped.create(
        cluster=cluster, name="a100", card_model="A100-40G", card_memory_mib=MEMORY_MIB
    )
    inventory_sync(cluster=cluster, inventory=backend_for(cluster).read_inventory())
    return cell, flavor


def root_folder() -> Tenant:
    """Return the root tenant; a missing one is created."""
    return Tenant.unscoped.filter(parent=None).first() or tenant_create(
        acting_user=SYSTEM, parent=None, kind=TenantKind.FOLDER, slug="root", name="Root"
    )


def _key(workspace: Tenant) -> str:
    user: User = user_create(
        acting_user=SYSTEM, username="bench", password=os.urandom(16).hex(), must_change_password=False
    )
    member_set(acting_user=SYSTEM, user=user, tenant=workspace, role=Role.EDITOR)
    return access_key_create(acting_user=SYSTEM, user=user, name="bench")[1]


if __name__ == "__main__":
    call_command("migrate", verbosity=0)
    token = build_world(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    if float(sys.argv[4]):
        demo_setup(home=settings.ALLOTMENT_HOME)
        call_command("simulate", "speed", sys.argv[4], "--cluster", "demo", stdout=sys.stderr)
    sys.stdout.write(json.dumps({"token": token}) + "\n")
