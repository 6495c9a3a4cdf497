"""Checks of the pages of queues: the order of pending jobs, what admitted jobs hold, and the quota."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import datetime

from quotas.models import Queue
from scheduling.models import Attempt, Claim, DeviceSlice, Job, UserUsage
from tests.truth.pages.console import Console
from tests.truth.pages.reading import Line, PageText

_HOLDING = {"admitted", "starting", "running", "evicting", "stopping"}


def draw_usage(seed: int, console: Console, now: datetime) -> None:
    """Give users of each queue a recent usage of compute alone, as of now."""
    draw = random.Random(f"usage {seed}")
    UserUsage.unscoped.all().delete()
    pairs = sorted({(job.queue_id, job.submitted_by_id) for job in console.ledger.jobs}, key=str)
    UserUsage.unscoped.bulk_create(
        UserUsage(
            queue_id=queue, user_id=user, at=now, consumed={"gpu.cores": draw.choice((0.0, 50.0, 200.0))}
        )
        for queue, user in pairs
        if draw.random() < 0.7
    )


def order_pending(jobs: Iterable[Job]) -> list[Job]:
    """The pending jobs of a queue in the order of the scheduler, whose usage `draw_usage` has drawn."""
    used = {
        (row.queue_id, row.user_id): row.consumed.get("gpu.cores", 0.0)
        for row in UserUsage.unscoped.filter(queue__user_shares=True)
    }
    claimed = set(Claim.unscoped.values_list("job_id", flat=True))

    def key_of(job: Job) -> tuple[object, ...]:
        first = job.queue.strategy != "strict-fifo" and job.pk in claimed
        load = used.get((job.queue_id, job.submitted_by_id), 0.0)
        return load, not first, -job.priority, job.submitted_at, job.pk

    return sorted((job for job in jobs if job.state == "queued"), key=key_of)  # type: ignore[arg-type]


def check_queues(console: Console) -> None:
    """Compare the tables of each queue's page with the rows."""
    for queue in Queue.unscoped.filter(closed_at=None).select_related("workspace", "node"):
        jobs = [job for job in console.ledger.jobs if job.queue_id == queue.pk]
        path = f"/ops/queues/{queue.workspace.slug}/{queue.name}"
        first = console.operate(path)
        pending = order_pending(jobs)
        _check_pending(_read_pages(console, path, first, "page", len(pending), "Position"), pending)
        admitted = [job for job in jobs if job.state in _HOLDING]
        _check_admitted(_read_pages(console, path, first, "admitted", len(admitted), "Preemptible"), admitted)
        _check_quota(console, first, queue)


def _read_pages(
    console: Console, path: str, first: PageText, name: str, count: int, heading: str
) -> Sequence[Line]:
    """The lines of a table on all its pages."""
    if not count:
        return ()
    lines = list(first.lines("Job", heading))
    number = 2
    while len(lines) < count:
        lines += console.operate(f"{path}?{name}={number}").lines("Job", heading)
        number += 1
    return lines


def _check_pending(lines: Sequence[Line], jobs: Sequence[Job]) -> None:
    assert [line.cells["Job"] for line in lines] == [job.name for job in jobs]
    assert [line.number("Position") for line in lines] == [*range(1, len(jobs) + 1)]
    assert [line.cells["User"] for line in lines] == [job.submitted_by.username for job in jobs]


def _check_admitted(lines: Sequence[Line], jobs: Sequence[Job]) -> None:
    shown = {line.name: line for line in lines}
    assert shown.keys() == {job.name for job in jobs}
    for job in jobs:
        slices = DeviceSlice.unscoped.filter(allocation__attempt__job=job, allocation__released_at=None)
        held = sum(slices.values_list("cores", flat=True)) / 100
        assert abs((shown[job.name].number("GPUs") or 0) - held) <= 0.0051, (job.name, held)
        borrowed, read = _borrowed_gpus(job), shown[job.name].number("Borrowed at admission") or 0
        assert abs(read - borrowed) <= 0.0051, (job.name, borrowed)


def _borrowed_gpus(job: Job) -> float:
    """Return what the run borrowed at admission, if its compute was limited."""
    attempt = Attempt.unscoped.get(job=job, number=job.attempt_number)
    compute = [amount for key, amount in attempt.borrowed.items() if key.endswith("/gpu.cores")]
    return sum(compute) / 100


def _check_quota(console: Console, page: PageText, queue: Queue) -> None:
    lines = [line for line in page.lines("Pool", "Lending limit") if line.cells["Resource"] == "Compute GPUs"]
    pools = {pool.name: pool for pool in console.made.pools}
    held = dict.fromkeys(pools, 0)
    for part in DeviceSlice.unscoped.filter(
        allocation__attempt__job__queue=queue, allocation__released_at=None
    ).select_related("allocation__flavor"):
        held[part.allocation.flavor.name] += part.cores
    assert {name for name, cores in held.items() if cores} <= {line.name for line in lines}
    for line in lines:
        nominal = console.ledger.nominal(queue.node, pools[line.name])
        if nominal is None:
            assert line.cells["Nominal quota"] == "unlimited"
        else:
            assert abs((line.number("Nominal quota") or 0) - nominal / 100) <= 0.051, (line, nominal)
        assert abs((line.number("Allocated") or 0) - held[line.name] / 100) <= 0.051, (line, held)
        borrowed = 0 if nominal is None else max(0, held[line.name] - nominal)
        assert abs((line.number("Borrowed") or 0) - borrowed / 100) <= 0.051, (line, borrowed)
        if nominal is not None:
            lent, free = line.number("Lent") or 0.0, line.number("Free") or 0.0
            assert abs(min(held[line.name], nominal) / 100 + lent + free - nominal / 100) <= 0.11, line
            assert line.cells["Available"] == "unlimited" or free <= line.numbers("Available")[0], line
