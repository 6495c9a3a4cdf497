"""Checks of measured use beside quota: in the rows of the quota tree, of quota tables and of queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from clusters.models import Flavor
from foundation.core.quantities import Resource
from quotas.models import Queue
from scheduling.models import DeviceSlice
from tenants.models import Tenant, TenantKind
from tests.truth.pages.console import MISSING
from tests.truth.pages.installations import has_kind
from tests.truth.pages.reading import Line, PageText
from tests.truth.pages.uses import Measured, below, job_of

_UNITS: Final = {Resource.GPU_CORES: 100, Resource.GPU_MEMORY: 1024}
Chosen = Callable[[DeviceSlice], bool]


def of_queue(queue: Queue) -> Chosen:
    """Choose the slices of jobs of a queue."""
    return lambda part: job_of(part).queue_id == queue.pk


def check_tree_use(world: Measured) -> None:
    """Check the use of a pool by each tenant of the quota tree, and by each queue of an opened workspace."""
    made = world.console.made
    for pool in made.pools:
        path = f"/ops/quotas/tree?pool={pool.pk}"
        for line in world.console.operate(path).lines("Tenant", "Used"):
            tenants = [one for one in made.tenants if line.name.split(" ×")[0] == one.name]
            if tenants:
                _check_used(world, line, pool, below(tenants[0]))
        for workspace in made.workspaces:
            opened = f"{path}&open={world.console.ledger.node_of(workspace).pk}"
            shown = world.console.operate(opened).lines("Tenant", "Used")
            lines = {line.name.split(" ×")[0]: line for line in shown}
            for queue in _queues_of(world, workspace):
                _check_used(world, lines[f"{queue.name} queue"], pool, of_queue(queue))


def check_tables_use(world: Measured) -> None:
    """Check the use of the nodes in the quota tables of a tenant, in compute and in memory."""
    for tenant in world.console.made.tenants:
        for resource in _UNITS:
            path = f"/ops/quotas?tenant={tenant.slug}&resource={resource.value}"
            _check_tables(world, world.console.operate(path), tenant, resource)
        if has_kind(tenant, TenantKind.WORKSPACE):
            person = world.console.made.people[tenant][0]
            page = world.console.open(person, f"/w/{tenant.slug}/quota")
            _check_tables(world, page, tenant, Resource.GPU_CORES)


def _check_tables(world: Measured, page: PageText, tenant: Tenant, resource: Resource) -> None:
    chosen = {one.name: below(one) for one in world.console.made.tenants if one.parent_id == tenant.pk}
    chosen |= {queue.name: of_queue(queue) for queue in _queues_of(world, tenant)}
    for pool in world.console.made.pools:
        if f"{pool.name} {pool.card_model}" not in page.text():
            assert not any(part.allocation.flavor_id == pool.pk for part in _held(world, below(tenant)))
            continue
        own, *children = page.lines("Name", "Used", label=f"Quota in {pool.name}")
        _check_used(world, own, pool, below(tenant), resource)
        assert {line.name for line in children} == chosen.keys(), tenant.name
        for line in children:
            _check_used(world, line, pool, chosen[line.name], resource)


def check_queues_use(world: Measured) -> None:
    """Check the pools on the page of each queue."""
    for queue in world.console.made.queues:
        page = world.console.operate(f"/ops/queues/{queue.workspace.slug}/{queue.name}")
        for resource, word in ((Resource.GPU_CORES, "Compute GPUs"), (Resource.GPU_MEMORY, "GPU memory GiB")):
            for line in page.lines("Pool", "Resource", "Used"):
                if line.cells["Resource"] == word:
                    pool = next(one for one in world.console.made.pools if one.name == line.name)
                    _check_used(world, line, pool, of_queue(queue), resource)


def _queues_of(world: Measured, workspace: Tenant) -> list[Queue]:
    return [queue for queue in world.console.made.queues if queue.workspace_id == workspace.pk]


def _held(world: Measured, chosen: Chosen) -> list[DeviceSlice]:
    return [part for part in world.found.held.values() if chosen(part)]


def _check_used(
    world: Measured, line: Line, pool: Flavor, chosen: Chosen, resource: Resource = Resource.GPU_CORES
) -> None:
    held = [part for part in _held(world, chosen) if part.allocation.flavor_id == pool.pk]
    known = [part for part in held if part.pk in world.found.slices]
    if held and not known:
        assert line.cells["Used"] == MISSING, line
        return
    uses = [world.found.slices[part.pk] for part in known]
    used = sum(use.percent if resource is Resource.GPU_CORES else use.memory_mib for use in uses)
    assert line.cells["Used"] != MISSING, line
    assert line.cells["Used"].startswith("≥ ") == (len(known) < len(held)), (line, known, held)
    assert abs((line.number("Used") or 0.0) - used / _UNITS[resource]) <= 0.0551, (line, used)


QUOTA_USE_CHECKS: Final[dict[str, Callable[[Measured], None]]] = {
    "use in the quota tree": check_tree_use,
    "use in quota tables": check_tables_use,
    "use of queues": check_queues_use,
}
