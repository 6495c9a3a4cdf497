"""No job starves although run-time limits are unknown: capacity is reserved for one that has waited long."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from scheduling.engine import BackfillOptions, EngineConfig, FairSharing, PreemptionOptions
from scheduling.engine.model import GpuMode, Job, PreemptionPolicy, PreemptOthers, Reason
from tests.unit.scheduling.engine.actions.stage import Stage
from tests.unit.scheduling.engine.builders import flavor, job, node, queue, quotas, role, world

MINUTE_S = 60
BOUND = 20
"""Minutes after which capacity is reserved."""
HOLDING = EngineConfig(
    actions=("admit", "consolidate"),
    fair_sharing=FairSharing(),
    backfill=BackfillOptions(reservation_after_s=BOUND * MINUTE_S),
)
RECLAIM = PreemptionPolicy(reclaim=PreemptOthers.ANY)


@dataclass
class Hours:
    """A cluster of nodes of eight cards on which a job of one card comes each minute and runs ten.

    `a` owns `owned` of the cards, `b` the others; all that come each minute are in the queue of `a`.
    """

    nodes: int = 2
    owned: int = 16
    runs: int = 14
    config: EngineConfig = HOLDING
    ends: dict[str, float] = field(default_factory=dict)
    number: int = 0

    def __post_init__(self) -> None:
        whole, cards = {"mode": GpuMode.WHOLE}, 8 * self.nodes
        self.stage = Stage(
            world(
                [node(f"n{index:02d}", 8, device=whole) for index in range(self.nodes)],
                teams={"a": quotas(self.owned), "b": quotas(cards - self.owned)},
                queues=[queue("a", preemption=RECLAIM), queue("b", preemption=RECLAIM)],
                flavors=[flavor(mode=GpuMode.WHOLE)],
            ),
            self.config,
            now=0.0,
        )

    def pass_minutes(self, count: int = 1, limit: int | None = None) -> None:
        """Run so many minutes, each with a new job; `limit` is the run-time limit that it declares."""
        stage = self.stage
        for _ in range(count):
            for name in [name for name, end in self.ends.items() if end <= stage.now]:
                del self.ends[name]
                stage.apply_end(name)
            self.number += 1
            stage.submit(job(f"small{self.number:04d}", "a", at=stage.now, max_run_s=limit))
            began = stage.now
            stage.cycle()
            for name in stage.running() - self.ends.keys():
                if name.startswith("small"):
                    self.ends[name] = began + self.runs * MINUTE_S
            for name in list(stage.snapshot.jobs):
                stage.end_evicted(name)
            stage.now = began + MINUTE_S

    def minutes_until_runs(self, name: str, most: int = 2 * BOUND) -> int:
        """Return the minutes until a job runs; fails after `most`."""
        for minute in range(most):
            if name in self.stage.running():
                return minute
            self.pass_minutes()
        raise AssertionError(f"{name} does not run after {most} minutes: {self.stage.outcome(name)}")


def large(**facts: Any) -> Job:
    """Return a job of eight cards on one node."""
    return job("large", "a", role(1, 8), **facts)


def test_a_large_job_beside_a_stream_of_small_ones_starts_within_twice_the_bound() -> None:
    hours = Hours()
    hours.pass_minutes(BOUND)
    hours.stage.submit(large(at=hours.stage.now))
    assert hours.minutes_until_runs("large") >= BOUND


def test_a_gang_of_sixteen_on_whole_nodes_does_so_too() -> None:
    hours = Hours(nodes=4, owned=32, runs=18)
    hours.pass_minutes(BOUND)
    hours.stage.submit(job("gang", "a", role(2, 8), at=hours.stage.now))
    for _ in range(12):
        # Twice the nodes, so that all cards are in use.
        hours.stage.submit(job(f"small9{hours.number:03d}", "a", at=hours.stage.now))
        hours.pass_minutes()
    assert hours.minutes_until_runs("gang", 2 * BOUND - 12) < 2 * BOUND


def test_it_starts_where_every_second_small_job_names_no_limit() -> None:
    hours = Hours()
    hours.pass_minutes(BOUND)
    hours.stage.submit(large(at=hours.stage.now))
    for minute in range(2 * BOUND):
        hours.pass_minutes(limit=hours.runs * MINUTE_S if minute % 2 else None)
        if "large" in hours.stage.running():
            return
    raise AssertionError(hours.stage.outcome("large"))


def test_it_starts_where_others_have_borrowed_what_its_queue_leaves_free() -> None:
    hours = Hours(owned=12)
    hours.pass_minutes(BOUND)
    hours.stage.submit(*(job(f"b{index:02d}", "b", at=hours.stage.now) for index in range(16)))
    hours.stage.submit(large(at=hours.stage.now))
    assert hours.minutes_until_runs("large") < 2 * BOUND


def test_without_a_bound_it_waits_as_long_as_they_come() -> None:
    hours = Hours(config=replace(HOLDING, backfill=BackfillOptions(reservation_after_s=None)))
    hours.pass_minutes(BOUND)
    hours.stage.submit(large(at=hours.stage.now))
    hours.pass_minutes(3 * BOUND)
    assert "large" not in hours.stage.running()


def test_a_job_that_would_take_its_place_gets_the_name_of_the_reservation() -> None:
    hours = Hours(runs=30)
    hours.pass_minutes(BOUND)
    hours.stage.submit(large(at=hours.stage.now))
    told = []
    while "large" not in hours.stage.running():
        hours.pass_minutes()
        assert hours.stage.last is not None
        told += [found for found in hours.stage.last.outcomes if found.reason is Reason.RESERVED_FOR_LARGER]
    assert told
    assert {found.numbers["job"] for found in told} == {"large"}
    assert {found.numbers["since"] for found in told} == {2 * BOUND * MINUTE_S}
    assert not any(found.help or "at" in found.numbers for found in told)


def evicted(config: EngineConfig) -> Hours:
    """The owner `b` runs on all cards but ten; a job of `a`, which owns nothing, was evicted once."""
    hours = Hours(nodes=20, owned=0, runs=8, config=config)
    hours.stage.submit(job("owner", "b", role(150, 1)))
    hours.stage.cycle()
    hours.pass_minutes(BOUND)
    hours.stage.submit(job("old", "a", role(1, 3), evictions=1, evicted_at=hours.stage.now, at=0))
    return hours


def test_an_evicted_job_is_not_passed_for_ever_by_younger_ones_of_its_queue() -> None:
    hours = evicted(HOLDING)
    assert hours.stage.config.preemption.readmission_headroom_permille * 160 >= 1_000
    hours.minutes_until_runs("old")


def test_without_a_bound_an_evicted_job_is_passed_as_long_as_they_come() -> None:
    hours = evicted(replace(HOLDING, backfill=BackfillOptions(reservation_after_s=None)))
    hours.pass_minutes(3 * BOUND)
    assert "old" not in hours.stage.running()
    hours = evicted(
        replace(
            HOLDING,
            backfill=BackfillOptions(reservation_after_s=None),
            preemption=PreemptionOptions(readmission_headroom_permille=0),
        )
    )
    hours.minutes_until_runs("old", 3 * BOUND)
