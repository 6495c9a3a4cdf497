"""Changes of a cell between two cycles: decisions take effect, jobs end and are submitted, nodes change."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace

from benchmarks.support.cells import BenchCell
from scheduling.engine import (
    AllocationPut,
    AllocationRemoved,
    Change,
    ClaimPut,
    ClaimRemoved,
    Delta,
    JobPut,
    JobRemoved,
    NodePut,
)
from scheduling.engine.model import (
    Claim,
    CycleResult,
    Decision,
    DecisionKind,
    Instant,
    JobState,
)

CLAIM_S = 300
# The decisions whose allocations are removed before the next cycle.
LEFT = (DecisionKind.EVICT, DecisionKind.SHRINK, DecisionKind.MIGRATE)


def carried_out(cell: BenchCell, result: CycleResult, now: Instant) -> Delta:
    """Return the decisions of a cycle as changes; evicted and released tasks are removed immediately."""
    left = [d for d in result.decisions if d.kind in LEFT]
    released = dict.fromkeys(key for decision in left for key in decision.released)
    facts = (fact for decision in result.decisions for fact in _facts(cell, decision, released, now))
    return Delta((*(AllocationRemoved(key) for key in released), *facts))


def refill_queue(cell: BenchCell, now: Instant) -> Delta:
    """Submit as many gangs as started, so that the queue keeps its length."""
    waiting = sum(job.state is JobState.QUEUED for job in cell.snapshot.jobs.values())
    return Delta(tuple(JobPut(job) for job in cell.new_gangs(max(0, cell.size.gangs - waiting), now)))


def churn_cell(cell: BenchCell, now: Instant, share: float = 0.01) -> Delta:
    """Return changes: about `share` of the running tasks end, as many gangs are submitted, nodes change."""
    snapshot, draw = cell.snapshot, cell.draw
    running = [job.id for job in snapshot.jobs.values() if job.state is JobState.LIVE]
    wanted, changes = round(share * len(snapshot.allocations)), list[Change]()
    for job_id in draw.sample(running, min(len(running), wanted)):
        held = snapshot.allocations_of(job_id)
        if wanted <= 0:
            break
        wanted -= len(held)
        changes += [AllocationRemoved(task.id) for task in held]
        changes.append(JobRemoved(job_id))
    changes += [JobPut(job) for job in cell.new_gangs(max(1, round(share * cell.size.gangs)), now)]
    return Delta((*_nodes(cell, share), *changes))


def _nodes(cell: BenchCell, share: float) -> Iterator[Change]:
    """Yield changes of nodes: half of them are cordoned or uncordoned, the others get another label."""
    fleet, draw = cell.snapshot.fleet, cell.draw
    for number, row in enumerate(draw.sample(range(len(fleet)), max(2, round(share * len(fleet))))):
        node = fleet.export_node(row)
        if number % 2:
            yield NodePut(replace(node, labels={**node.labels, "checked": str(draw.randrange(9))}))
        else:
            yield NodePut(replace(node, schedulable=not node.schedulable))


def _facts(cell: BenchCell, decision: Decision, released: Container[str], now: Instant) -> Iterator[Change]:
    job = cell.snapshot.jobs[decision.job]
    match decision.kind:
        case DecisionKind.ADMIT:
            yield ClaimRemoved(job.id)
            yield JobPut(replace(job, state=JobState.LIVE, admitted_at=now, running_since=now))
        case DecisionKind.EVICT:
            yield JobPut(
                replace(
                    job,
                    state=JobState.QUEUED,
                    evictions=job.evictions + 1,
                    admitted_at=None,
                    running_since=None,
                )
            )
        case DecisionKind.PARK if decision.allocations:
            leaving = tuple(key for key in decision.released if key not in released)
            until = Instant(now + CLAIM_S)
            yield ClaimPut(Claim(job=job.id, allocations=decision.allocations, leaving=leaving, until=until))
        case DecisionKind.PARK:
            yield ClaimRemoved(job.id)
        case _:
            pass
    if decision.kind is not DecisionKind.PARK:
        yield from (AllocationPut(task) for task in decision.allocations)
