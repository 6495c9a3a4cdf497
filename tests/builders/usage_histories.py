"""Random histories of jobs in the database, and their usage counted second by second."""

from __future__ import annotations

import random
import uuid
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from clusters.models import Flavor
from quotas.models import Queue
from scheduling.models import Allocation, Attempt, GpuRequestMode, Job, Task
from telemetry.models import Price
from tenants.models import User
from tests.builders import clusters, jobs
from tests.builders.jobs import RoleOf
from tests.builders.world import World

STEP_S = 60
"""Everything in a history happens at a whole multiple of this, so that counting by it is exact."""


@dataclass(frozen=True)
class Piece:
    """One task's hold of a constant amount."""

    begin: datetime
    end: datetime
    cores: int
    billed: int


@dataclass
class Run:
    """One attempt as the oracle knows it."""

    job: Job
    user: User
    queue: Queue
    flavor: Flavor
    sliced: bool
    pieces: list[Piece] = field(default_factory=list)
    begin: datetime = datetime(2000, 1, 1, tzinfo=UTC)
    borrowed: int = 0
    lost: tuple[datetime, datetime] | None = None


@dataclass
class History:
    """Runs and prices: (flavor, from, whole, slice)."""

    world: World
    now: datetime
    runs: list[Run] = field(default_factory=list)
    prices: list[tuple[Flavor, datetime, Decimal, Decimal | None]] = field(default_factory=list)


def make_history(world: World, dice: random.Random, *, since: datetime, now: datetime, runs: int) -> History:
    """Write a history into the database: runs with evictions, resizes and prices that change."""
    other = clusters.flavor(world.cluster, "l40s")
    history = History(world, now)
    for flavor in (world.flavor, other):
        for _ in range(dice.randint(0, 3)):
            at = since + timedelta(
                seconds=STEP_S * dice.randrange(int((now - since).total_seconds()) // STEP_S)
            )
            part = Decimal(dice.randint(1, 9_999_999)).scaleb(-6) if dice.random() < 0.5 else None
            whole = Decimal(dice.randint(1, 99_999_999)).scaleb(-6)
            if Price.unscoped.filter(flavor=flavor, effective_at=at).exists():
                continue
            Price.unscoped.create(flavor=flavor, effective_at=at, gpu_hour=whole, slice_hour=part)
            history.prices.append((flavor, at, whole, part))
    for _ in range(runs):
        history.runs.append(_run(history, dice, dice.choice([world.flavor, other]), since))
    return history


def _moment(dice: random.Random, since: datetime, until: datetime) -> datetime:
    steps = int((until - since).total_seconds()) // STEP_S
    return since + timedelta(seconds=STEP_S * dice.randint(0, steps))


def _run(history: History, dice: random.Random, flavor: Flavor, since: datetime) -> Run:
    world = history.world
    queue, user = dice.choice([(world.queue, world.editor), (world.queue, world.admin),
                               (world.other_queue, world.outsider)])  # fmt: skip
    sliced, replicas = dice.random() < 0.5, dice.randint(1, 3)
    role = RoleOf(replicas=replicas, mode=GpuRequestMode.SLICE if sliced else GpuRequestMode.WHOLE)
    known = [run for run in history.runs if (run.queue, run.sliced) == (queue, sliced) and not _live(run)]
    if known and dice.random() < 0.3:
        old = dice.choice(known)
        job, user = old.job, old.user
    else:
        job = jobs.job(queue, user, roles=[role])
        job.checkpoint_interval_s = dice.choice([None, 600, 5400])
        job.save()
    run = Run(job, user, queue, flavor, sliced)
    run.begin = begin = _moment(dice, since, history.now)
    live = dice.random() < 0.2 and not Attempt.unscoped.filter(job=job, ended_at=None).exists()
    ended = None if live else _moment(dice, begin, history.now)
    tasks = list(Task.unscoped.filter(job=job).order_by("pk"))
    started = None if dice.random() < 0.1 else _moment(dice, begin, ended or history.now)
    reason = dice.choice(["", "RECLAIM_NOMINAL", "USER", "FAIR_SHARE"]) if ended else ""
    cores = [dice.randint(1, 99) if sliced else 100 * dice.randint(1, 4) for _ in tasks]
    run.borrowed = dice.choice([0, dice.randint(1, sum(cores))])
    attempt = Attempt.unscoped.create(
        job=job, number=Attempt.unscoped.filter(job=job).count() + 1, epoch=1, admitted_at=begin,
        started_at=started, ended_at=ended, end_reason=reason,
        borrowed={f"{flavor.pk}/gpu.cores": run.borrowed, f"{flavor.pk}/cpu": 7} if run.borrowed else {},
    )  # fmt: skip
    if ended and reason in ("RECLAIM_NOMINAL", "FAIR_SHARE") and started is not None:
        ran = int((ended - started).total_seconds())
        lost_s = ran % job.checkpoint_interval_s if job.checkpoint_interval_s else ran
        run.lost = (ended - timedelta(seconds=lost_s), ended)
    for task, amount in zip(tasks, cores, strict=True):
        released = None if ended is None else _moment(dice, begin, ended)
        _hold(history, dice, run, attempt, task, amount, released)
    return run


def _live(run: Run) -> bool:
    return Attempt.unscoped.filter(job=run.job, ended_at=None).exists()


def _hold(
    history: History, dice: random.Random, run: Run, attempt: Attempt, task: Task, cores: int,
    released: datetime | None,
) -> None:  # fmt: skip
    until = released or history.now
    card = run.flavor.card_memory_mib
    times = sorted(
        {_moment(dice, run.begin, until) for _ in range(dice.choice([0, 0, 1, 2]) if run.sliced else 0)}
    )
    past, begin = [], run.begin
    for end in [*times, until]:
        memory = dice.randint(1, card)
        charge = {"gpu.cards": 1, "gpu.cores": cores, "gpu.memory": memory, "cpu": 10}
        # The share of memory in whole percent, upwards, by counting.
        share = next(n for n in range(1, 102) if n * card >= 100 * memory)
        run.pieces.append(Piece(begin, end, cores, max(cores, share) if run.sliced else cores))
        past.append([int(end.timestamp()) * 1000, charge])
        begin = end
    Allocation.unscoped.create(
        attempt=attempt, task=task, node=history.world.nodes[0], flavor=run.flavor, cpu_millicores=10,
        memory_mib=10, charge=past[-1][1], past_charges=past[:-1] or None, namespace="x",
        pod_name=uuid.uuid4().hex, released_at=released,
    )  # fmt: skip


Key = tuple[uuid.UUID, uuid.UUID]
"""A job and a flavor."""


@dataclass
class Counted:
    """GPU-percent-seconds by kind, and the amount."""

    amounts: Counter[str] = field(default_factory=Counter)
    cost: Decimal | None = None


def count_by_steps(
    history: History, start: datetime, end: datetime, digits: int = 2
) -> dict[tuple[uuid.UUID, uuid.UUID], Counted]:
    """Walk through a time step by step: what each job holds on each flavor, and what it costs."""
    exact: defaultdict[Key, Fraction | None] = defaultdict(lambda: None)
    found: defaultdict[Key, Counted] = defaultdict(Counted)
    for run in history.runs:
        key = (run.job.pk, run.flavor.pk)
        at = max(start, run.begin)
        last = min(end, max(piece.end for piece in run.pieces))
        while at < last:
            held = [piece for piece in run.pieces if piece.begin <= at < piece.end]
            cores, billed = sum(p.cores for p in held), sum(p.billed for p in held)
            if cores:
                first = sum(p.cores for p in run.pieces if p.begin <= run.begin < p.end)
                own = max(0, first - run.borrowed)
                sums = found[key].amounts
                sums["reserved"] += cores * STEP_S
                sums["billed"] += billed * STEP_S
                sums["borrowed"] += min(run.borrowed, max(0, cores - own)) * STEP_S
                if run.lost and run.lost[0] <= at < run.lost[1]:
                    sums["lost"] += cores * STEP_S
                price = _price_at(history, run, at)
                if price is None:
                    sums["unpriced"] += billed * STEP_S
                else:
                    exact[key] = (exact[key] or Fraction(0)) + Fraction(price) * billed * STEP_S / 360_000
            at += timedelta(seconds=STEP_S)
    for key, cost in exact.items():
        if cost is not None:
            cents = cost * 10**digits
            whole = int(cents) + (1 if cents - int(cents) >= Fraction(1, 2) else 0)
            found[key].cost = Decimal(whole).scaleb(-digits)
    return dict(found)


def _price_at(history: History, run: Run, at: datetime) -> Decimal | None:
    known = [(since, whole, part) for flavor, since, whole, part in history.prices
             if flavor.pk == run.flavor.pk and since <= at]  # fmt: skip
    if not known:
        return None
    _, whole, part = max(known)
    return part if run.sliced and part is not None else whole
