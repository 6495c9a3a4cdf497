"""Running jobs for the tests of housekeeping actions, and the effects of decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from scheduling.engine import (
    AllocationPut,
    AllocationRemoved,
    Change,
    ClaimPut,
    Delta,
    JobPut,
    Snapshot,
    run_cycle,
)
from scheduling.engine.builtin import resolve_config
from scheduling.engine.gang import GangPlacer
from scheduling.engine.model import (
    Claim,
    CycleResult,
    Decision,
    DecisionKind,
    Instant,
    Job,
    JobState,
    Node,
)
from scheduling.engine.placement.placer import placer_for
from scheduling.engine.quota.assignment import Refusal
from scheduling.engine.session.config import EngineConfig
from tests.unit.scheduling.engine.builders import NOW, world
from tests.unit.scheduling.engine.gang.worlds import assigned

LIVE = JobState.LIVE


def live(entry: Job, **facts: Any) -> Job:
    """Return the job as a running one."""
    return replace(entry, **{"state": LIVE, "admitted_at": Instant(0), "running_since": Instant(0), **facts})


def running_world(
    nodes: Iterable[Node],
    where: Mapping[str, Iterable[str]] | None = None,
    jobs: Iterable[Job] = (),
    **facts: Any,
) -> Snapshot:
    """Return a world with running jobs; `where` names the node of each task of a job in turn."""
    snapshot = world(nodes, jobs, **facts)
    for entry in sorted(snapshot.jobs.values(), key=lambda job: job.id):
        if entry.state is LIVE:
            place_tasks(snapshot, entry, list((where or {}).get(entry.id, ())))
    return snapshot


def place_tasks(snapshot: Snapshot, entry: Job, nodes: list[str]) -> None:
    """Place tasks of a job, one on each node named; without names all tasks on any nodes."""
    rule = resolve_config(EngineConfig()).rule
    queue = snapshot.queues[entry.queue]
    for number, name in enumerate(nodes or [""]):
        rules = replace(entry.rules, node_name=name or None)
        counts = None if not nodes else _nth(entry, number)
        one = replace(entry, rules=rules, min_available=None, topology=None, sub_gangs=())
        if nodes:
            loose = tuple(replace(role, min_replicas=0, sub_gang="", topology=None) for role in entry.roles)
            one = replace(one, roles=loose)
        with snapshot.statement() as statement:
            placer = placer_for(snapshot.fleet, rule)
            found = GangPlacer(snapshot, placer).place_job(statement, queue, one, assigned(one, counts))
        assert not isinstance(found, Refusal) and found, (entry.id, name, found)
        snapshot.apply_delta(Delta(tuple(AllocationPut(allocation) for allocation in found)))


def _nth(entry: Job, number: int) -> dict[str, int]:
    """Return one task of the role that the n-th task belongs to."""
    left = number
    counts = {role.name: 0 for role in entry.roles}
    for role in entry.roles:
        if left < role.replicas:
            counts[role.name] = 1
            return counts
        left -= role.replicas
    raise AssertionError(f"{entry.id} has fewer tasks")


def act(snapshot: Snapshot, *actions: str, now: Instant = NOW, **facts: Any) -> CycleResult:
    """Run one cycle of these actions."""
    return run_cycle(snapshot, EngineConfig(actions=actions, **facts), now)


def decided(result: CycleResult) -> list[tuple[str, str, str]]:
    """Return kind, job and rule of each decision."""
    return [
        (entry.kind.value, entry.job, entry.rule.value if entry.rule else "") for entry in result.decisions
    ]


def settle(snapshot: Snapshot, result: CycleResult, *, gone: bool = False) -> None:
    """Let the decisions take effect: evicted tasks are marked as leaving, or removed with `gone`."""
    changes: list[Change] = []
    for decision in result.decisions:
        changes.extend(_effects(snapshot, decision, gone=gone))
    snapshot.apply_delta(Delta(tuple(changes)))


def _effects(snapshot: Snapshot, decision: Decision, *, gone: bool) -> Iterable[Change]:
    entry = snapshot.jobs[decision.job]
    match decision.kind:
        case DecisionKind.EVICT | DecisionKind.SHRINK:
            for task_id in decision.released:
                task = snapshot.allocations[task_id]
                yield AllocationRemoved(task_id)
                if not gone:
                    yield AllocationPut(replace(task, leaving=True))
            if decision.kind is DecisionKind.EVICT:
                yield JobPut(replace(entry, state=JobState.QUEUED if gone else JobState.LEAVING))
        case DecisionKind.PARK:
            if gone:
                yield JobPut(live(entry))
                yield from (AllocationPut(allocation) for allocation in decision.allocations)
            else:
                claim = Claim(
                    job=entry.id,
                    allocations=decision.allocations,
                    leaving=decision.released,
                    until=Instant(NOW + 300),
                )
                yield ClaimPut(claim)
        case _:
            yield from (AllocationRemoved(task_id) for task_id in decision.released)
            yield JobPut(live(entry))
            yield from (AllocationPut(allocation) for allocation in decision.allocations)
