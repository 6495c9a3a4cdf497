"""A small world with one of everything."""

from __future__ import annotations

from dataclasses import dataclass

from clusters.models import Cell, Cluster, Flavor, Node
from quotas.models import Queue
from scheduling.models import PriorityClass
from tenants.models import Role, Tenant, User
from tests.builders import clusters, jobs, quotas, tenancy


@dataclass(frozen=True, slots=True)
class World:
    """Two workspaces below one root, one cluster with two nodes of eight cards, a queue for each."""

    cell: Cell
    cluster: Cluster
    flavor: Flavor
    nodes: list[Node]
    workspace: Tenant
    other_workspace: Tenant
    queue: Queue
    other_queue: Queue
    viewer: User
    editor: User
    admin: User
    outsider: User
    platform_admin: User
    normal: PriorityClass


def world() -> World:
    cell = clusters.cell()
    cluster = clusters.cluster(cell)
    flavor = clusters.flavor(cluster)
    nodes = clusters.nodes(flavor, 2)
    mine, other = tenancy.workspace("team-a"), tenancy.workspace("team-b")
    quotas.gpu_quota(quotas.quota_node(cell, tenancy.root()), flavor, 0)
    return World(
        cell=cell,
        cluster=cluster,
        flavor=flavor,
        nodes=nodes,
        workspace=mine,
        other_workspace=other,
        queue=quotas.queue(cell, mine, [flavor], cards=8),
        other_queue=quotas.queue(cell, other, [flavor], cards=8),
        viewer=tenancy.user("vera", mine, Role.VIEWER),
        editor=tenancy.user("ed", mine, Role.EDITOR),
        admin=tenancy.user("adam", mine, Role.ADMIN),
        outsider=tenancy.user("otto", other, Role.ADMIN),
        platform_admin=tenancy.platform_admin(),
        normal=jobs.priority_class(),
    )
