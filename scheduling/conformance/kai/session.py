"""Runs one of KAI's actions on a world: builds a snapshot, runs a cycle of the engine, carries out
decisions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from scheduling.conformance.errors import Skipped
from scheduling.conformance.kai.devices import PLUGINS
from scheduling.conformance.kai.fair import with_fair_shares
from scheduling.conformance.kai.numa import add_usage, with_numa
from scheduling.conformance.kai.stale_gang import StaleGangEviction
from scheduling.conformance.kai.world import KaiGang, KaiTask, Status, World
from scheduling.engine import (
    BackfillOptions,
    ConsolidationOptions,
    ElasticOptions,
    EngineConfig,
    ExplainScope,
    PreemptionOptions,
    Snapshot,
    VictimOrder,
    run_cycle,
)
from scheduling.engine.model import (
    Allocation,
    Charge,
    Claim,
    Device,
    Instant,
    Job,
    JobState,
    Node,
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
    QuotaNode,
)

MANY = 2**31
MOVED_AWAY = "(moved)"
ACTIONS = {
    "allocate": ("allocate", "elastic"),
    "consolidation": ("consolidate",),
    "reclaim": ("admit",),
    "preempt": ("admit",),
    "stalegangeviction": ("stale_gang",),
}


def run_action(world: World, action: str) -> None:
    """Run one action and carry out its decisions.

    Raises:
        Skipped: when the engine has no such action.
    """
    if action not in ACTIONS:
        raise Skipped(f"there is no action {action}")
    _cycle(world, action, world.quota_nodes)
    if action == "reclaim":
        # The first cycle has reclaimed up to what queues deserve; non-preemptible jobs get no more than that.
        _cycle(world, action, with_fair_shares(world), fixed=False)


def _cycle(world: World, action: str, quotas: Iterable[QuotaNode], *, fixed: bool = True) -> None:
    result = run_cycle(
        build_snapshot(world, action, quotas, fixed=fixed), build_config(world, action), world.now
    )
    world.carry_out(result.decisions)


def build_config(world: World, action: str) -> EngineConfig:
    """Return a configuration like KAI's: every job is tried, victims are in KAI's order, without limits."""
    config = EngineConfig(
        actions=ACTIONS[action],
        devices=world.devices,
        plugins=PLUGINS,
        heads_per_queue=None,
        backfill=BackfillOptions(reservation_after_s=None),
        preemption=PreemptionOptions(
            victim_order=VictimOrder.PRIORITY,
            eviction_cap=MANY,
            max_loss_s=None,
            readmission_headroom_permille=0,
            nominal_counts_non_preemptible_only=True,
            search_budget=MANY,
            oracle_budget=MANY,
            claim_timeout_s=3600,
        ),
        consolidation=ConsolidationOptions(
            moves_per_cycle=MANY,
            jobs_per_move=None,
            max_job_shapes=MANY,
            placement_budget=None,
            max_loss_s=None,
            cheapest_first=False,
            with_evictions=False,
            preemptible_only=True,
            for_growth=True,
        ),
        elastic=ElasticOptions(
            grow_past_waiting=True,
            start_at_minimum=True,
            max_growth_per_cycle=None,
        ),
        explain=ExplainScope.CONSIDERED,
    )
    if world.numa_policies:
        plugins = with_numa(world.numa_policies, world.devices)
        config = replace(config, plugins=plugins, vetoes=(*config.vetoes, "numa"), devices="aligned")
    if "stale_gang" in config.actions:
        stale = StaleGangEviction(_broken_gangs(world))
        actions = PLUGINS.actions.with_plugins(stale)
        config = replace(config, plugins=replace(config.plugins or PLUGINS, actions=actions))
    return config


def _broken_gangs(world: World) -> dict[str, tuple[Instant, int]]:
    """Return since when gangs would be below their minimum, and their grace period; the action checks
    sizes."""
    return {
        name: (
            world.now if gang.broken_since is None else gang.broken_since,
            world.grace_s if gang.grace_s is None else gang.grace_s,
        )
        for name, gang in world.gangs.items()
    }


def build_snapshot(world: World, action: str, quotas: Iterable[QuotaNode], *, fixed: bool = True) -> Snapshot:
    """Return a snapshot of the world with these quotas. Without `fixed`, non-preemptible jobs that do not run
    yet are left out."""
    former = {f"{MOVED_AWAY}{task.job}": task.job for task in world.all_tasks() if task.former is not None}
    held = [_seen(task, allocation) for task, allocation in world.all_allocations()]
    held += [task.hold for task in world.all_tasks() if task.former is not None and task.hold is not None]
    jobs = [job for gang in world.gangs.values() if (job := _job(world, gang, fixed=fixed)) is not None]
    jobs += [
        replace(world.gangs[job].job, id=name, state=JobState.LEAVING, sub_gangs=(), topology=None)
        for name, job in former.items()
    ]
    rights = _rights(action)
    return Snapshot(
        nodes=[_loaded(node, held) for node in world.nodes],
        flavors=[world.flavor],
        quota_nodes=[_used(node, held, world) for node in quotas],
        queues=[replace(queue, preemption=rights) for queue in world.queues],
        jobs=jobs,
        allocations=held,
        claims=[claim for gang in world.gangs.values() if (claim := _claim(world, gang)) is not None],
    )


def _rights(action: str) -> PreemptionPolicy:
    if action == "preempt":
        return PreemptionPolicy(within_queue=PreemptWithin.LOWER_PRIORITY)
    return PreemptionPolicy(reclaim=PreemptOthers.ANY)


def _seen(task: KaiTask, allocation: Allocation) -> Allocation:
    """Return the allocation for the snapshot: the former allocation of a task that is moved belongs to
    another job id, because its own is the new one.
    """
    if task.former is None:
        return allocation
    return replace(allocation, job=f"{MOVED_AWAY}{allocation.job}")


def _job(world: World, gang: KaiGang, *, fixed: bool) -> Job | None:
    """Return the job in its current state; None if it has no task left to run."""
    placed = [task for task in gang.tasks if task.is_placed() or task.former is not None]
    waits = [task for task in gang.tasks if task.status in (Status.PENDING, Status.PIPELINED)]
    leaves = [task for task in gang.tasks if task.status is Status.RELEASING]
    stuck = any(task.status is Status.STUCK for task in gang.tasks)
    if placed:
        state = JobState.LIVE
    elif leaves:
        state = JobState.LEAVING
    elif waits:
        state = JobState.QUEUED if fixed or gang.job.preemptible else JobState.SUSPENDED
    else:
        return None
    return replace(gang.job, state=state, preemptible=gang.job.preemptible and not stuck)


def _claim(world: World, gang: KaiGang) -> Claim | None:
    """Return the gang's claim, with the ids under which tasks that are moved still hold their former
    allocations."""
    if gang.claim is None:
        return None
    moving = {task.former.id for task in world.all_tasks() if task.former is not None}
    leaving = (f"{MOVED_AWAY}{key}" if key in moving else key for key in gang.claim.leaving)
    return replace(gang.claim, leaving=tuple(leaving))


@dataclass(slots=True)
class _NodeLoad:
    cores: int = 0
    memory: int = 0
    holders: int = 0
    exclusive: bool = False


def _loaded(node: Node, held: Iterable[Allocation]) -> Node:
    """Return a node with the usage of its cards by these allocations."""
    here = [allocation for allocation in held if allocation.node == node.id]
    loads = {device.uuid: _NodeLoad() for device in node.devices}
    for allocation in here:
        for part in allocation.slices:
            load = loads[part.device]
            load.cores += part.cores
            load.memory += part.memory
            load.holders += 1
            load.exclusive |= part.exclusive
    return replace(
        add_usage(node, here),
        used_cpu=sum(allocation.cpu for allocation in here),
        used_memory=sum(allocation.memory for allocation in here),
        used_pods=len(here),
        devices=tuple(_with(device, loads[device.uuid]) for device in node.devices),
    )


def _with(device: Device, load: _NodeLoad) -> Device:
    return replace(
        device,
        used_cores=load.cores,
        used_memory=load.memory,
        holders=load.holders,
        exclusive=load.exclusive,
    )


def _used(node: QuotaNode, held: Iterable[Allocation], world: World) -> QuotaNode:
    leaves = {queue.id for queue in world.queues}
    total: dict[tuple[str, str], int] = {}
    if node.id in leaves:
        for allocation in held:
            if allocation.queue == node.id:
                for charge in allocation.charges:
                    total[charge.key] = total.get(charge.key, 0) + charge.amount
    return replace(node, usage=tuple(Charge(*key, amount) for key, amount in sorted(total.items())))
