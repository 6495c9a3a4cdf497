"""Reads a job of a case: its sub-groups become parts, and its tasks become roles of equal tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduling.conformance.kai.requests import build_request, build_rules
from scheduling.conformance.kai.world import KaiGang, KaiTask, Status
from scheduling.engine.model import (
    Instant,
    Job,
    PlacementRules,
    Request,
    Role,
    SubGang,
    TopologyMode,
    TopologyRule,
)

ROOT = "(root)"
_DURATION = re.compile(r"(-?\d+(?:\.\d+)?)(h|ms|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}

Levels = Mapping[str, tuple[str, ...]]
"""The levels of each topology, coarse to fine, by its name."""


def parse_seconds(text: str) -> float:
    """Return the seconds of a Go duration, such as `1m0s`."""
    sign = -1 if text.startswith("-") else 1
    return sign * sum(abs(float(number)) * _SECONDS[unit] for number, unit in _DURATION.findall(text))


@dataclass(frozen=True, slots=True)
class _Like:
    """The properties of interchangeable tasks, which become one role."""

    part: str
    request: Request
    rules: PlacementRules
    rank: int


def read_gang(group: Mapping[str, Any], raw: Mapping[str, Any], levels: Levels, now: Instant) -> KaiGang:
    """Return the job of one pod group with its tasks, without placements."""
    parts = _parts(group["subGroups"], levels)
    requests = [_like(entry, own, raw) for entry, own in _paired(group, raw)]
    roles, tasks = [], []
    for part in parts.sets:
        members = [index for index, like in enumerate(requests) if like.part == part.name]
        found = _roles(part, members, requests, group)
        roles += [role for role, _ in found]
        for role, indexes in found:
            tasks += [
                _task(group, entry, role.name, position)
                for position, entry in enumerate(group["tasks"][index] for index in indexes)
            ]
    order = {entry["uid"]: index for index, entry in enumerate(group["tasks"])}
    tasks.sort(key=lambda task: order[task.uid])
    job = replace(_plain(group, now), roles=tuple(roles), topology=parts.topology, sub_gangs=parts.gangs)
    grace, stale = group.get("stalenessGracePeriod"), group.get("staleSinceOffsetSeconds")
    return KaiGang(
        job=job,
        tasks=tasks,
        deleted=bool(raw.get("DeleteJobInTest")),
        grace_s=None if grace is None else int(parse_seconds(grace)),
        broken_since=None if stale is None else Instant(now + stale),
    )


def _plain(group: Mapping[str, Any], now: Instant) -> Job:
    delay = group.get("preemptionDelay")
    created = now + group["createdOffsetSeconds"]
    last = group.get("lastStartOffsetSeconds")
    started = None if last is None else Instant(now + last)
    return Job(
        id=group["name"],
        queue=group["queue"],
        roles=(),
        submitted_at=Instant(now - 100_000 + group["createdRank"]),
        priority=int(group.get("priority", 0)),
        preemptible=group["preemptibility"] == "preemptible",
        # Jobs with the same start are ordered by their creation.
        admitted_at=None if started is None else Instant(started + 0.001 * group["createdRank"]),
        running_since=started,
        preempts_after=None if delay is None else Instant(created + parse_seconds(delay)),
    )


def _paired(
    group: Mapping[str, Any], raw: Mapping[str, Any]
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    described: Sequence[Mapping[str, Any]] = raw.get("Tasks", ())
    for index, entry in enumerate(group["tasks"]):
        yield entry, described[index] if index < len(described) else {}


def _like(entry: Mapping[str, Any], own: Mapping[str, Any], raw: Mapping[str, Any]) -> _Like:
    return _Like(
        part=entry.get("subGroup", "") or "default",
        request=build_request(entry, raw.get("QOSClass", ""), legacy=bool(own.get("IsLegacyMigTask"))),
        rules=build_rules(own),
        rank=-int(own.get("Priority", 0)),
    )


def _task(group: Mapping[str, Any], entry: Mapping[str, Any], role: str, index: int) -> KaiTask:
    asked = entry["requests"]
    return KaiTask(
        uid=entry["uid"],
        job=group["name"],
        role=role,
        index=index,
        status=Status(entry["status"]),
        gpus=float(asked.get("gpu", 0)),
        cpu=int(asked.get("cpu", 0)),
        memory=int(asked.get("memory", 0)),
        noted=entry.get("node", ""),
    )


# Roles


@dataclass(frozen=True, slots=True)
class _PodSet:
    name: str
    least: int


def _roles(
    part: _PodSet, members: Sequence[int], requests: Sequence[_Like], group: Mapping[str, Any]
) -> list[tuple[Role, list[int]]]:
    """Return the roles of one pod set, each with its tasks: ended tasks come last, and failed ones after
    them.

    Equal tasks are one role with the pod set's minimum. With several roles the minimum holds for all
    together.
    """
    kinds: list[_Like] = []
    of_kind: list[list[int]] = []
    for index in sorted(members, key=lambda index: requests[index].rank):
        if requests[index] not in kinds:
            kinds.append(requests[index])
            of_kind.append([])
        of_kind[kinds.index(requests[index])].append(index)
    found = []
    for number, (kind, indexes) in enumerate(zip(kinds, of_kind, strict=True)):
        states = {index: Status(group["tasks"][index]["status"]) for index in indexes}
        indexes.sort(key=lambda index: (states[index] is Status.FAILED, states[index] is Status.SUCCEEDED))
        counted = [index for index in indexes if states[index] is not Status.FAILED]
        least = part.least if len(kinds) == 1 else 0
        role = Role(
            name=part.name if len(kinds) == 1 else f"{part.name}.{number}",
            replicas=len(counted),
            request=kind.request,
            min_replicas=len(counted) if least == len(counted) else least,
            ended=sum(states[index] is Status.SUCCEEDED for index in counted),
            rules=kind.rules,
            sub_gang=part.name,
        )
        found.append((role, indexes))
    return found


# Parts


@dataclass(frozen=True, slots=True)
class _Parts:
    sets: tuple[_PodSet, ...]
    gangs: tuple[SubGang, ...]
    topology: TopologyRule | None


def _parts(tree: Mapping[str, Any], levels: Levels) -> _Parts:
    sets: list[_PodSet] = []
    gangs: list[SubGang] = []
    top = None
    if "minSubGroup" in tree:
        # The engine's job has no minimum number of parts, so one part around all others has it.
        top = ROOT
        gangs.append(SubGang(name=ROOT, min_parts=int(tree["minSubGroup"])))
    _gather(tree, top, levels, sets, gangs)
    return _Parts(tuple(sets), tuple(gangs), _topology(tree, levels))


def _gather(
    tree: Mapping[str, Any],
    parent: str | None,
    levels: Levels,
    sets: list[_PodSet],
    gangs: list[SubGang],
) -> None:
    for group in tree.get("groups", ()):
        gangs.append(
            SubGang(
                name=group["name"],
                parent=parent,
                min_parts=group.get("minSubGroup"),
                topology=_topology(group, levels),
            )
        )
        _gather(group, group["name"], levels, sets, gangs)
    for podset in tree.get("podSets", ()):
        least = int(podset.get("minAvailable", 0))
        sets.append(_PodSet(podset["name"], least))
        gangs.append(
            SubGang(
                name=podset["name"],
                parent=parent,
                min_available=least,
                topology=_topology(podset, levels),
            )
        )


def _topology(tree: Mapping[str, Any], levels: Levels) -> TopologyRule | None:
    """Return the rule of a constraint. A level that its topology does not have becomes a label without
    nodes."""
    wanted = tree.get("topologyConstraint")
    if not wanted:
        return None
    known = levels.get(wanted.get("topology", ""), ())
    required, preferred = (wanted.get(name, "") for name in ("requiredLevel", "preferredLevel"))
    if required:
        level = required if required in known else f"{wanted.get('topology', '')}/{required}"
        return TopologyRule(level=level, mode=TopologyMode.REQUIRED, preferred_level=preferred)
    if preferred:
        return TopologyRule(level=preferred, mode=TopologyMode.PREFERRED)
    return None
