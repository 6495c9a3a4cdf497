"""Checks of an event list of `allotment replay --events`, from the events alone.

Neither the engine nor the replay's own counts are used, so that each can be checked against the other. An
instant consists of all events of one second: completions, then arrivals, then decisions.

  python -m benchmarks.support.replay_events EVENTS TENANTS [--nodes-per-tenant NAME=N …]
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

GRACE_S = 60
HOUR_S = 3600


class EventLine(NamedTuple):
    """One event of the file."""

    t_s: int
    event: str
    job: str
    tenant: str
    gpus: int
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EventPool:
    """The number of nodes of each tenant's nominal; all nodes have the same number of GPUs."""

    nodes: Mapping[str, int]
    per_node: int = 8

    def count_nominal(self, tenant: str) -> int:
        """Return the number of GPUs of a tenant's nominal."""
        return self.nodes[tenant] * self.per_node

    def list_node_shares(self, gpus: int) -> list[int]:
        """Return the GPUs that a job takes on each of its nodes: one node, or whole ones."""
        if gpus <= self.per_node:
            return [gpus]
        return [self.per_node] * -(-gpus // self.per_node)


class Stretch(NamedTuple):
    """A period in which a job would have fitted into its tenant's own nodes, and waited."""

    since: int
    seconds: int
    job: str


class Needless(NamedTuple):
    """An eviction for a job that would have fitted into free places that went to borrowers."""

    t_s: int
    victim: str
    taker: str


@dataclass(slots=True)
class Findings:
    """The figures of one run.

    `owed` are the periods of metric 1a above the grace for every waiting job, `owed_heads` those of the first
    job of each queue alone. `needless` are evictions for a job that fitted, when the instant began, beside
    all running jobs and all jobs that started inside a nominal. `lost_percent` is a part of the GPU-seconds
    of finished runs. `misplaced` counts starts on nodes that were too full.
    """

    jobs: int = 0
    finished: int = 0
    queue_mean_s: float = 0.0
    owed: list[Stretch] = field(default_factory=list)
    owed_heads: list[Stretch] = field(default_factory=list)
    evictions: int = 0
    evictions_of_one: int = 0
    needless: list[Needless] = field(default_factory=list)
    lost_gpu_hours: float = 0.0
    lost_percent: float = 0.0
    misplaced: int = 0

    def to_json(self) -> dict[str, object]:
        """Return the figures; of periods and needless evictions the number and the worst."""
        figures = asdict(self)
        for name in ("owed", "owed_heads"):
            stretches: list[Stretch] = getattr(self, name)
            figures[name] = len(stretches)
            figures[f"{name}_longest_s"] = max((each.seconds for each in stretches), default=0)
        return figures | {"needless": len(self.needless)}


@dataclass(slots=True)
class _Job:
    name: str
    tenant: str
    gpus: int
    submit_s: int
    order: int
    since: int | None = None
    nodes: tuple[str, ...] = ()
    evictions: int = 0
    lost_s: int = 0


def check_events(lines: Iterable[EventLine], pool: EventPool) -> Findings:
    """Check an event list, in the order of time, and return the findings."""
    state = _State(pool)
    for at, together in groupby(lines, key=lambda line: line.t_s):
        state.replay_second(at, list(together))
    return state.collect_findings()


class _State:
    """The pending jobs and the places of running ones, instant by instant."""

    def __init__(self, pool: EventPool) -> None:
        self._pool, self._found = pool, Findings()
        self._jobs: dict[str, _Job] = {}
        self._waiting: dict[str, dict[str, _Job]] = {tenant: {} for tenant in pool.nodes}
        self._running: dict[str, dict[str, _Job]] = {tenant: {} for tenant in pool.nodes}
        self._free = {f"node-{number:04d}": pool.per_node for number in range(sum(pool.nodes.values()))}
        self._due_since: dict[str, int] = {}
        self._due_heads: dict[str, tuple[int, str]] = {}
        self._waited = self._ran = 0

    def collect_findings(self) -> Findings:
        """Return the findings; periods that are open at the end are not counted."""
        found, jobs = self._found, self._jobs.values()
        found.jobs = len(jobs)
        found.evictions = sum(job.evictions for job in jobs)
        found.evictions_of_one = max((job.evictions for job in jobs), default=0)
        lost = sum(job.gpus * job.lost_s for job in jobs)
        found.lost_gpu_hours = round(lost / HOUR_S, 3)
        found.lost_percent = round(100 * lost / self._ran, 3) if self._ran else 0.0
        found.queue_mean_s = round(self._waited / found.finished, 3) if found.finished else 0.0
        return found

    def replay_second(self, at: int, lines: Sequence[EventLine]) -> None:
        """Replay all events of one second."""
        for line in lines:
            if line.event == "finish":
                self._finish(at, line)
            elif line.event == "submit":
                job = _Job(line.job, line.tenant, line.gpus, at, len(self._jobs))
                self._jobs[line.job] = self._waiting[line.tenant][line.job] = job
        decided = [line for line in lines if line.event in ("start", "evict")]
        before = dict(self._free)
        vacated = {line.job: self._jobs[line.job].nodes for line in decided if line.event == "evict"}
        remaining = {line.tenant: self._used(line.tenant, vacated) for line in decided}
        for line in decided:
            if line.event == "start":
                self._start(at, line)
            else:
                self._evict(at, line)
        self._found.misplaced += sum(
            line.event == "start" and any(self._free[node] < 0 for node in line.nodes) for line in decided
        )
        if vacated:
            self._check_evictions(
                at, vacated, [line for line in decided if line.event == "start"], before, remaining
            )
        for tenant in {line.tenant for line in lines}:
            self._watch(at, tenant)

    def _start(self, at: int, line: EventLine) -> None:
        job = self._waiting[line.tenant].pop(line.job)
        self._running[line.tenant][line.job] = job
        job.since, job.nodes = at, line.nodes
        self._hold(job, 1)

    def _evict(self, at: int, line: EventLine) -> None:
        job = self._end(line)
        self._waiting[line.tenant][line.job] = job
        job.lost_s += at - (job.since or 0)
        job.evictions += 1

    def _finish(self, at: int, line: EventLine) -> None:
        job = self._end(line)
        ran = at - (job.since or 0)
        self._ran += job.gpus * ran
        self._waited += at - job.submit_s - ran - job.lost_s
        self._found.finished += 1

    def _end(self, line: EventLine) -> _Job:
        job = self._running[line.tenant].pop(line.job)
        self._hold(job, -1)
        return job

    def _hold(self, job: _Job, sign: int) -> None:
        for node, cards in zip(job.nodes, self._pool.list_node_shares(job.gpus), strict=True):
            self._free[node] -= sign * cards

    def _used(self, tenant: str, without: Container[str]) -> int:
        return sum(job.gpus for job in self._running[tenant].values() if job.name not in without)

    # Metric 1a

    def _watch(self, at: int, tenant: str) -> None:
        """Open and close the periods of a tenant's jobs, by the state at the end of the instant."""
        gangs = [job.gpus for job in self._running[tenant].values()]
        waiting = self._waiting[tenant]
        sizes = {job.gpus for job in waiting.values()}
        fitting = {size for size in sizes if self._fits_own_nodes(tenant, [*gangs, size])}
        due = {name for name, job in waiting.items() if job.gpus in fitting}
        mine = {name for name in self._due_since if self._jobs[name].tenant == tenant}
        for name in mine - due:
            self._close(at, self._due_since.pop(name), name, self._found.owed)
        self._due_since |= dict.fromkeys(due - mine, at)
        head = min(waiting.values(), key=lambda job: job.order, default=None)
        owed = head.name if head is not None and head.name in due else None
        before = self._due_heads.pop(tenant, None)
        if before is not None and before[1] != owed:
            self._close(at, *before, self._found.owed_heads)
            before = None
        if owed is not None:
            self._due_heads[tenant] = before or (at, owed)

    def _close(self, at: int, since: int, job: str, into: list[Stretch]) -> None:
        if at - since > GRACE_S:
            into.append(Stretch(since, at - since, job))

    def _fits_own_nodes(self, tenant: str, gangs: Sequence[int]) -> bool:
        """Return whether these gangs fit together on the tenant's own nodes, packed largest first."""
        free = [self._pool.per_node] * self._pool.nodes[tenant]
        needed = sorted(
            (cards for gang in gangs for cards in self._pool.list_node_shares(gang)), reverse=True
        )
        if sum(needed) > len(free) * self._pool.per_node:
            return False
        for cards in needed:
            # Best fit: the fullest node with enough room.
            best = min((room for room in free if room >= cards), default=None)
            if best is None:
                return False
            free[free.index(best)] -= cards
        return True

    # Needless evictions

    def _check_evictions(
        self,
        at: int,
        vacated: Mapping[str, tuple[str, ...]],
        starts: Sequence[EventLine],
        before: dict[str, int],
        used: dict[str, int],
    ) -> None:
        """Check each eviction against the places that were free when the instant began.

        `used` are the GPUs of each tenant's running jobs without those evicted in this instant. A job that
        started inside its tenant's nominal keeps those of its places that were free; places of borrowers and
        moved jobs count as free.
        """
        left = {node for nodes in vacated.values() for node in nodes}
        owners: set[str] = set()
        for line in starts:
            used[line.tenant] += line.gpus
            if used[line.tenant] > self._pool.count_nominal(line.tenant):
                continue
            owners.add(line.job)
            if line.job not in vacated:
                for node, cards in zip(line.nodes, self._pool.list_node_shares(line.gpus), strict=True):
                    before[node] -= 0 if node in left else cards
        for victim, nodes in vacated.items():
            takers = [line for line in starts if line.job != victim and not set(nodes).isdisjoint(line.nodes)]
            takers = [line for line in takers if line.job in owners] or takers
            taker = max(takers, key=lambda line: line.gpus, default=None)
            if taker is not None and _fits(self._pool.list_node_shares(taker.gpus), before):
                self._found.needless.append(Needless(at, victim, taker.job))


def _fits(places: Sequence[int], free: Mapping[str, int]) -> bool:
    """Return whether so many equal places are free on different nodes."""
    return sum(cards >= places[0] for cards in free.values()) >= len(places)


def read_events(file: Path) -> list[EventLine]:
    """Return the lines of an event list."""
    with file.open(newline="", encoding="utf-8") as stream:
        return [
            EventLine(int(t_s), event, job, tenant, int(gpus), tuple(nodes.split()))
            for t_s, event, job, tenant, gpus, nodes in list(csv.reader(stream))[1:]
        ]


def read_pool(file: Path, pairs: Sequence[str] = ()) -> EventPool:
    """Return the tenants' nodes; `pairs` are NAME=N and replace the file's numbers."""
    with file.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    nodes = {row["vc"]: int(row["nodes"]) for row in rows}
    per_node = int(rows[0]["gpus"]) // int(rows[0]["nodes"])
    given = {name: int(number) for name, _, number in (pair.partition("=") for pair in pairs)}
    return EventPool(nodes | given, per_node)


def main(arguments: Sequence[str]) -> int:
    """Print the figures as JSON; return 1 for a job that waited although it fitted, was evicted needlessly,
    or was misplaced.
    """
    parser = argparse.ArgumentParser(prog="benchmarks.support.replay_events", description=__doc__)
    parser.add_argument("events", type=Path)
    parser.add_argument("tenants", type=Path)
    parser.add_argument("--nodes-per-tenant", nargs="+", default=[], metavar="NAME=N")
    parser.add_argument("--list", action="store_true", help="print each interval and each needless eviction")
    options = parser.parse_args(arguments)
    found = check_events(read_events(options.events), read_pool(options.tenants, options.nodes_per_tenant))
    listed = {"stretches": found.owed, "needless_evictions": found.needless} if options.list else {}
    sys.stdout.write(json.dumps({**found.to_json(), **listed}, indent=2) + "\n")
    return 1 if found.owed or found.needless or found.misplaced else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
