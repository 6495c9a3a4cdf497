"""Reads the input of a case as a world: nodes, queues, and jobs with the placements of their tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduling.conformance.errors import BadCase, Skipped
from scheduling.conformance.kai.gangs import parse_seconds, read_gang
from scheduling.conformance.kai.numa import NumaPolicy, add_usage, read_observed, with_zones
from scheduling.conformance.kai.queues import build_queues, build_tree, capacity_of
from scheduling.conformance.kai.requests import CARD_CORES, LEGACY_MIG, mig_amounts
from scheduling.conformance.kai.world import ASSIGNED, KaiGang, KaiTask, Status, World
from scheduling.engine import compute_demand
from scheduling.engine.model import (
    Allocation,
    Charge,
    Device,
    DeviceSlice,
    Flavor,
    GpuMode,
    GpuRequest,
    Instant,
    Node,
    Request,
)

NOW = Instant(1_000_000.0)
POOL = "pool"
FREE = ("gpu.cards", "gpu.memory", LEGACY_MIG)
MIG_ENABLED = "node-role.kubernetes.io/mig-enabled"
PLACED = (*ASSIGNED, Status.RELEASING)

Case = Mapping[str, Any]


def read_world(case: Case) -> World:
    """Return the state before the first action.

    Raises:
        BadCase: when something cannot be read.
        Skipped: when the case needs a feature that the engine does not have.
    """
    resolved, raw = case["input"]["resolved"], case["input"]["raw"]
    if raw.get("dra"):
        raise Skipped("devices are asked for by resource claims (DRA)")
    levels = {
        topology["metadata"]["name"]: tuple(level["nodeLabel"] for level in topology["spec"]["levels"])
        for topology in raw.get("topologies", ())
    }
    described = {job["Name"]: job for job in raw.get("jobs", ())}
    gangs = {
        group["name"]: read_gang(group, described.get(group["name"], {}), levels, NOW)
        for group in resolved["podGroups"]
    }
    plugins = {plugin["name"]: plugin.get("arguments", {}) for plugin in resolved["plugins"]}
    flavor = _flavor(resolved, plugins, levels, gangs)
    old = _legacy_nodes(resolved["podGroups"], described)
    nodes = {name: _node(name, node, legacy=name in old) for name, node in sorted(resolved["nodes"].items())}
    _settle(resolved["podGroups"], described, gangs, nodes, flavor)
    params = case["input"].get("schedulerParams", {})
    for gang in gangs.values():
        requests = {role.name: role.request for role in gang.job.roles}
        for task in gang.tasks:
            task.demand = compute_demand(requests[task.role], flavor)
    capacity = capacity_of(resolved["nodes"])
    held = [task.hold for gang in gangs.values() for task in gang.tasks if task.hold is not None]
    return World(
        # The usage of zones by unknown tasks stays.
        nodes=tuple(
            add_usage(node, (each for each in held if each.node == name), -1) for name, node in nodes.items()
        ),
        flavor=flavor,
        queues=build_queues(resolved["queues"], (flavor.id,)),
        quota_nodes=build_tree(
            resolved["queues"],
            capacity,
            FREE,
            flavor.id,
            limited="proportion" in plugins,
        ),
        facts=resolved["queues"],
        capacity=capacity,
        limited="proportion" in plugins,
        gangs=gangs,
        now=NOW,
        devices="spread" if "gpuspread" in plugins else "best-fit",
        numa_policies=_numa_policies(resolved["nodes"]),
        grace_s=int(parse_seconds(params.get("globalDefaultStalenessGracePeriod", "0s"))),
    )


def _flavor(
    resolved: Mapping[str, Any],
    plugins: Mapping[str, Mapping[str, str]],
    levels: Mapping[str, tuple[str, ...]],
    gangs: Mapping[str, KaiGang],
) -> Flavor:
    placement = plugins.get("nodeplacement", {})
    instances = any(mig_amounts(node["allocatable"]) for node in resolved["nodes"].values())
    names = dict.fromkeys(name for topology in levels.values() for name in topology)
    return Flavor(
        id=POOL,
        card_cores=CARD_CORES,
        card_memory=int(resolved["minNodeGpuMemoryMiB"]),
        mode=GpuMode.MIG if instances else GpuMode.SLICE,
        policy="spread" if placement.get("gpu") == "spread" else "compact",
        topology=tuple(names),
        mig_slices=1,
    )


# Nodes


def _legacy_nodes(
    groups: Sequence[Mapping[str, Any]], described: Mapping[str, Mapping[str, Any]]
) -> frozenset[str]:
    """Return the nodes with tasks that name their MIG instances by annotation: it is unknown which instances
    they use.
    """
    return frozenset(
        entry["node"]
        for group in groups
        for entry, own in zip(group["tasks"], described.get(group["name"], {}).get("Tasks", ()), strict=False)
        if own.get("IsLegacyMigTask") and entry.get("node")
    )


def _node(name: str, found: Mapping[str, Any], *, legacy: bool) -> Node:
    offered = found["allocatable"]
    # Cards of a node with MIG enabled are allocated as instances, never as cards or slices.
    divided = found.get("labels", {}).get(MIG_ENABLED) == "true"
    memory = int(found.get("gpuMemoryMiB", 0))
    cards = [
        Device(
            uuid=f"{name}/{index}",
            index=index,
            model="",
            mode=GpuMode.MIG if divided else GpuMode.SLICE,
            cores=CARD_CORES,
            memory=memory,
        )
        for index in range(int(offered.get("gpu", 0)))
    ]
    for profile, count in sorted(mig_amounts(offered).items()):
        for _ in range(count):
            cards.append(
                Device(
                    uuid=f"{name}/{len(cards)}",
                    index=len(cards),
                    model="",
                    mode=GpuMode.MIG,
                    healthy=not legacy,
                    cores=CARD_CORES,
                    memory=memory,
                    profile=profile,
                )
            )
    node = Node(
        id=name,
        name=name,
        labels=found.get("labels", {}),
        cpu=int(offered.get("cpu", 0)),
        memory=int(offered.get("memory", 0)),
        pods=int(offered["pods"]) if "pods" in offered else None,
        devices=tuple(cards),
    )
    return with_zones(node, found.get("numa", {}))


def _numa_policies(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, NumaPolicy]:
    """Return the NUMA policies of the nodes that have zones."""
    found = ((name, node.get("numa", {})) for name, node in nodes.items())
    return {name: NumaPolicy(int(numa.get("policy", 0))) for name, numa in found if numa.get("zones")}


# Placements


def _settle(
    groups: Sequence[Mapping[str, Any]],
    described: Mapping[str, Mapping[str, Any]],
    gangs: Mapping[str, KaiGang],
    nodes: Mapping[str, Node],
    flavor: Flavor,
) -> None:
    """Assign cards to all placed tasks: first to those with numbered cards, then to other shared ones, then
    to those with whole cards."""
    cards = _FreeCards(nodes)
    placed = []
    for group in groups:
        gang = gangs[group["name"]]
        notes = described.get(group["name"], {}).get("Tasks", ())
        for number, (entry, task) in enumerate(zip(group["tasks"], gang.tasks, strict=True)):
            if task.status in PLACED and entry.get("node") in nodes:
                note = notes[number].get("Annotations", {}) if number < len(notes) else {}
                placed.append((entry, task, gang, note))
    placed.sort(key=lambda found: _rank(found[0]))
    for entry, task, gang, note in placed:
        role = next(role for role in gang.job.roles if role.name == task.role)
        task.hold = _allocation(gang, task, role.request, entry, flavor, cards, note)


def _rank(entry: Mapping[str, Any]) -> int:
    groups = entry.get("gpuGroups", ())
    if not groups:
        return 2
    return 0 if all(group.isdigit() for group in groups) else 1


def _allocation(
    gang: KaiGang,
    task: KaiTask,
    request: Request,
    entry: Mapping[str, Any],
    flavor: Flavor,
    cards: _FreeCards,
    note: Mapping[str, str],
) -> Allocation:
    node = entry["node"]
    charges = tuple(
        Charge(flavor.id, resource, amount)
        for resource, amount in compute_demand(request, flavor).items()
        if amount
    )
    return Allocation(
        job=gang.job.id,
        queue=gang.job.queue,
        role=task.role,
        index=task.index,
        flavor=flavor.id,
        node=node,
        cpu=request.cpu,
        memory=request.memory,
        slices=() if request.gpu is None else cards.take_cards(node, request.gpu, entry.get("gpuGroups", ())),
        charges=charges,
        leaving=task.status is Status.RELEASING,
        extended=read_observed(note),
    )


class _FreeCards:
    """The free cards of all nodes while tasks are assigned to them."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._taken: dict[str, set[str]] = {name: set() for name in nodes}
        self._groups: dict[tuple[str, str], Device] = {}

    def take_cards(self, node: str, asked: GpuRequest, groups: Sequence[str]) -> tuple[DeviceSlice, ...]:
        """Return the cards of one task: those of its groups, or the first free ones of its profile."""
        if groups:
            devices = [self._of_group(node, group) for group in groups]
        else:
            devices = self._first(node, asked.profile, asked.cards)
        return tuple(self._slice(device, asked) for device in devices)

    def _of_group(self, node: str, group: str) -> Device:
        known = self._groups.get((node, group))
        if known is None:
            known = self._numbered(node, group) or next(iter(self._first(node, "", 1)), None)
            if known is None:
                raise BadCase(f"node {node}: there is no card for the group {group}")
            self._taken[node].add(known.uuid)
            self._groups[node, group] = known
        return known

    def _numbered(self, node: str, group: str) -> Device | None:
        if not group.isdigit():
            return None
        return next((card for card in self._nodes[node].devices if card.index == int(group)), None)

    def _first(self, node: str, profile: str, count: int) -> list[Device]:
        free = [
            card
            for card in self._nodes[node].devices
            if card.uuid not in self._taken[node] and card.profile == profile
        ][:count]
        self._taken[node].update(card.uuid for card in free)
        return free

    def _slice(self, device: Device, asked: GpuRequest) -> DeviceSlice:
        if asked.mode is not GpuMode.SLICE:
            return DeviceSlice(device.uuid, device.cores, device.memory, True)
        memory = asked.memory or 0
        cores = device.cores * memory // max(device.memory, 1) if asked.cores is None else asked.cores
        return DeviceSlice(device.uuid, cores, memory, False)
