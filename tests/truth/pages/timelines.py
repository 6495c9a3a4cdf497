"""Checks of the timeline of queues: run times so far, expected ends, and expected starts."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from quotas.models import Queue
from scheduling.models import Attempt, Job, JobState
from scheduling.services.start_prediction.queue_times import learn_run_times
from tests.builders import jobs
from tests.builders.predictions import prediction
from tests.truth.pages.console import MISSING, Console
from tests.truth.pages.installations import Installation
from tests.truth.pages.queues import order_pending

_RUN: Final = timedelta(seconds=5_000)
"""All runs of the past took so long, and the running ones have run for less."""
_PAST_RUNS: Final = 40
_HORIZON: Final = timedelta(days=3)
_ACTIVE: Final = frozenset({"queued", "admitted", "starting", "running"})
_UNITS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
Bounds = tuple[int | None, int | None, int | None, int | None, int | None]


@dataclass(frozen=True)
class Timelines:
    """An installation with a past and with predictions: their bounds in seconds from `made_at`."""

    console: Console
    queue: Queue
    now: datetime
    made_at: datetime
    bounds: dict[Job, Bounds]


def draw_timelines(seed: int, console: Console, now: datetime) -> Timelines:
    """Give the queue in which most jobs run a past, and some of its pending jobs a prediction."""
    draw, made = random.Random(f"times {seed}"), console.made
    active = [
        job for job in console.ledger.jobs if job.state in {"queued", "admitted", "starting", "running"}
    ]
    queue = max(made.queues, key=lambda one: _count_active(one, active))
    _add_past(made, queue, now)
    learn_run_times.cache_clear()  # pages of the same minute were asked before
    made_at, bounds = now - timedelta(minutes=draw.randint(1, 30)), {}
    for job in active:
        if job.queue_id == queue.pk and job.state == "queued" and draw.random() < 0.7:
            first: list[int | None] = [*sorted(draw.randint(60, 5_400) for _ in range(5))]
            within = draw.choice((0, 1, 3, 5, 5))
            found = [*first[:within], *([None] * (5 - within))]
            bounds[job] = (found[0], found[1], found[2], found[3], found[4])
            names = ("low_s", "likely_low_s", "median_s", "likely_high_s", "high_s")
            fields = dict(zip(names, bounds[job], strict=True))
            prediction(job, made_at, horizon_s=int(_HORIZON.total_seconds()), **fields)
    return Timelines(console, queue, now, made_at, bounds)


def _count_active(queue: Queue, active: Sequence[Job]) -> tuple[int, int]:
    """Return how many jobs of a queue have begun, and how many it has."""
    of_queue = [job for job in active if job.queue_id == queue.pk]
    return sum(job.started_at is not None for job in of_queue), len(of_queue)


def _add_past(made: Installation, queue: Queue, now: datetime) -> None:
    past = jobs.job(queue, made.people[queue.workspace][0], "past", state=JobState.SUCCEEDED)
    begun = now - timedelta(days=1)
    Attempt.unscoped.bulk_create(
        Attempt(
            job=past, number=number, epoch=1, admitted_at=begun, started_at=begun, ended_at=begun + _RUN,
            end_reason="",
        )
        for number in range(1, _PAST_RUNS + 1)
    )  # fmt: skip


def check_timeline(world: Timelines) -> None:
    """The table beside the drawing: each job with its times, and the estimates that follow."""
    page = world.console.operate(f"/ops/queues/{world.queue.workspace.slug}/{world.queue.name}")
    shown = page.lines("Job", "Run time so far")
    held = [job for job in _of_queue(world) if job.state != "queued"]
    pending = order_pending(_of_queue(world))
    assert {line.name for line in shown[: len(held)]} == {job.name for job in held}
    assert [line.name for line in shown[len(held) :]] == [job.name for job in pending]
    lines = {line.name: line.cells for line in shown}
    for job in held:
        _check_running(world, job, lines[job.name])
    for job in pending:
        _check_pending(world, job, lines[job.name])


def _of_queue(world: Timelines) -> Sequence[Job]:
    active = {"queued", "admitted", "starting", "running"}
    return [
        job for job in world.console.ledger.jobs if job.queue_id == world.queue.pk and job.state in active
    ]


def _check_running(world: Timelines, job: Job, cells: dict[str, str]) -> None:
    if job.started_at is None:
        assert (cells["State"], cells["Started"], cells["Run time so far"]) == ("Starting", MISSING, MISSING)
        return
    assert (cells["State"], cells["Started"]) == ("Running", f"{job.started_at:%H:%M:%S}"), cells
    ran = (world.now - job.started_at).total_seconds()
    assert 0 <= ran - read_span(cells["Run time so far"]) < (60 if ran >= 600 else 1), (cells, ran)
    end = f"{job.started_at + _RUN:%H:%M}"
    assert cells["Estimate, 50 % range"] == f"Ends {end} – {end}", (cells, end)
    assert cells["Estimate, 90 % range"] == f"{end} – {end}", (cells, end)


def _check_pending(world: Timelines, job: Job, cells: dict[str, str]) -> None:
    assert (cells["State"], cells["Started"], cells["Run time so far"]) == ("Pending", MISSING, MISSING)
    if job not in world.bounds:
        assert cells["Estimate, 50 % range"] == "No estimate yet", cells
        return
    low, likely_low, _median, likely_high, high = world.bounds[job]
    if low is None:
        wait = world.made_at + _HORIZON - world.now
        words = cells["Estimate, 50 % range"]
        assert words.startswith("Not within "), cells
        assert 0 <= wait.total_seconds() - read_span(words.removeprefix("Not within ")) < 3600, cells
        return
    assert cells["Estimate, 90 % range"] == f"{_clock(world, low)} – {_clock(world, high)}", (
        cells,
        low,
        high,
    )
    if likely_low is not None:
        expected = f"Starts {_clock(world, likely_low)} – {_clock(world, likely_high)}"
        assert cells["Estimate, 50 % range"] == expected, (cells, expected)


def _clock(world: Timelines, bound_s: int | None) -> str:
    """A bound as a time of the day; what is past is now, as the job still waits."""
    if bound_s is None:
        return "later"
    return f"{max(world.made_at + timedelta(seconds=bound_s), world.now):%H:%M}"


def read_span(text: str) -> int:
    """The seconds of a span such as `2 h 5 min`. Raises: ValueError where there is none."""
    parts = re.findall(r"(\d+) (s|min|h|d)\b", text)
    if not parts:
        raise ValueError(f"no span: {text!r}")
    return sum(int(number) * _UNITS[unit] for number, unit in parts)
