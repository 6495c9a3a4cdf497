"""No job is evicted twice while no job ends: small random worlds under the platform's configuration.

One to seven jobs in one to three queues arrive once and run for ever. A job that is evicted twice between two
arrivals is evicted in a circle, by one or by several others in turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import pytest

from scheduling.engine import EngineConfig, PreemptionOptions
from scheduling.engine.model import DecisionKind, GpuMode, PreemptionPolicy, PreemptOthers, Role
from scheduling.engine.model import PreemptWithin as Within
from scheduling.engine_input.config import engine_config
from tests.unit.scheduling.engine.actions.stage import Stage
from tests.unit.scheduling.engine.builders import flavor, job, node, queue, quotas, role, world
from tests.unit.scheduling.engine.properties.laws import EXAMPLES

BATCHES = 10
LONG_S = 5_000.0
"""Seconds beyond the end of any protection."""
USUAL = PreemptionPolicy(within_queue=Within.LOWER_PRIORITY, reclaim=PreemptOthers.ANY)


class Coming(NamedTuple):
    """A job that arrives after so many seconds."""

    after_s: int
    name: str
    queue: str
    asked: Role
    facts: Mapping[str, Any]


class Town:
    """Nodes of so many cards, queues that own some of them, and jobs that arrive and never end."""

    def __init__(
        self,
        cards: Iterable[int],
        owned: Mapping[str, int],
        coming: Iterable[Coming],
        *,
        policies: Mapping[str, PreemptionPolicy] | None = None,
        config: EngineConfig | None = None,
    ) -> None:
        whole = {"mode": GpuMode.WHOLE}
        self.stage = Stage(
            world(
                [node(f"n{index}", size, device=whole) for index, size in enumerate(cards)],
                teams={name: quotas(nominal) for name, nominal in owned.items()},
                flavors=[flavor(mode=GpuMode.WHOLE)],
                queues=[queue(name, preemption=(policies or {}).get(name, USUAL)) for name in owned],
            ),
            config or engine_config(),
        )
        self.coming = sorted(coming, key=lambda each: (each.after_s, each.name))

    def most_evicted(self) -> tuple[int, list[str]]:
        """Let all jobs arrive, and run cycles between them until nothing changes; return the highest number
        of evictions of one job between two arrivals, and its preemptors."""
        worst: tuple[int, list[str]] = (0, [])
        for number, each in enumerate(self.coming):
            self.stage.now = max(self.stage.now, 1_000.0 + each.after_s)
            self.stage.submit(job(each.name, each.queue, each.asked, at=self.stage.now, **each.facts))
            last = number + 1 == len(self.coming)
            until = self.stage.now + LONG_S if last else 1_000.0 + self.coming[number + 1].after_s
            told = self._settle(until)
            if last:
                told += [line for _ in range(3) for line in self._settle(self.stage.now + LONG_S)]
            times = Counter(line.split()[0] for line in told)
            worst = max(worst, (max(times.values(), default=0), told), key=lambda found: found[0])
        return worst

    def _settle(self, until: float) -> list[str]:
        """Run cycles until two in a row decide nothing, or the time has come; then move the clock."""
        stage, quiet, told = self.stage, 0, list[str]()
        while stage.now < until and quiet < 2:
            result = stage.cycle()
            told += [
                f"{made.job} by {made.beneficiary} at {stage.now} ({made.rule})"
                for made in result.decisions
                if made.kind is DecisionKind.EVICT
            ]
            quiet = 0 if result.decisions else quiet + 1
            for name in list(stage.snapshot.jobs):
                stage.end_evicted(name)
        stage.now = max(stage.now, until)
        return told


def random_town(seed: int, config: EngineConfig | None = None) -> Town:
    """Return the world of a seed."""
    draw = Random(seed)
    cards = [draw.randint(5, 12) for _ in range(draw.choice((1, 1, 1, 1, 2, 3)))]
    names, left = "abc"[: draw.choice((1, 2, 2, 2, 3, 3, 3))], sum(cards)
    owned: dict[str, int] = {}
    for name in names:
        # Mostly the last of them owns what is left.
        owned[name] = left if name == names[-1] and draw.random() < 0.8 else draw.randint(0, left)
        left -= owned[name]
    policies = {
        name: PreemptionPolicy(
            within_queue=draw.choice((Within.NEVER, *[Within.LOWER_PRIORITY] * 4)),
            reclaim=draw.choice((PreemptOthers.NEVER, *[PreemptOthers.ANY] * 6)),
        )
        for name in names
    }
    coming = [
        Coming(
            draw.choice((0, draw.randint(0, 30), draw.randint(0, 30), draw.randint(0, 2_000))),
            f"j{number}",
            draw.choice(names),
            role(draw.choice((1, 1, 1, 1, 2)), draw.randint(1, max(cards))),
            {"priority": draw.choice((0, 0, 1, 2)), "preemptible": draw.random() > 0.05},
        )
        for number in range(draw.choice((1, 2, 3, 3, 4, 4, 5, 5, 6, 7)))
    ]
    return Town(cards, owned, coming, policies=policies, config=config)


def gangless(*jobs: tuple[str, int, int], every_s: int) -> list[Coming]:
    """Return jobs of one task from (queue, cards, priority), one each so many seconds."""
    return [
        Coming(index * every_s, f"j{index}", queue_id, role(1, cards), {"priority": priority})
        for index, (queue_id, cards, priority) in enumerate(jobs)
    ]


def circles(config: EngineConfig | None = None) -> Iterable[Town]:
    """Return three jobs of which each has a rule by which it may preempt the next."""
    for every_s in (0, 5):
        coming = gangless(("a", 6, 0), ("b", 3, 0), ("b", 7, 1), every_s=every_s)
        yield Town([7], {"a": 4, "b": 3}, coming, config=config)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_job_is_evicted_twice_where_nothing_ends(batch: int) -> None:
    for seed in range(batch, EXAMPLES, BATCHES):
        times, told = random_town(seed).most_evicted()
        assert times < 2, (seed, told)


def test_three_jobs_do_not_evict_each_other_in_turn() -> None:
    for town in circles():
        assert town.most_evicted()[0] < 2


def test_they_would_if_one_who_borrows_took_young_jobs_of_another_who_does() -> None:
    config = replace(engine_config(), preemption=PreemptionOptions(max_loss_s=600))
    assert all(town.most_evicted()[0] > 1 for town in circles(config))
