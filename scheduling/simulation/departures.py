"""Departures: at 90 % load some pods leave, and jobs that need whole nodes wait.

What the pods that stay leave free is scattered. How many of the waiting jobs could start is counted
as it is, and again after bounded moves that the engine finds; the moves are then made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from scheduling.engine import PlacementStream, PreparedRequest, TaskPlacement
from scheduling.engine.model import GpuRequest, Request
from scheduling.simulation.errors import UsageError

LOAD = 0.9
# What each waiting job asks for: eight whole cards and 64 cores.
WAITING = Request(cpu=64_000, memory=0, gpu=GpuRequest(cards=8))

Held = Mapping[str, tuple[PreparedRequest, TaskPlacement]]


@dataclass(frozen=True, slots=True)
class Departures:
    """How many of the pods leave, in percent, and how many tasks may be moved afterwards."""

    percent: float
    moves: int = 0

    def check_options(self) -> None:
        """Raise UsageError unless both are sensible."""
        if not 0 < self.percent < 100:
            raise UsageError(f"--departures is {self.percent:g}; it is above 0 and below 100")
        if self.moves < 0:
            raise UsageError(f"--moves is {self.moves}; it is at least 0")


@dataclass(frozen=True, slots=True)
class Departed:
    """Whole-node slots: how many waiting jobs could start at 90 % load, after departures, and after moves.

    `cards_moved` is in cards, parts of cards counted as such.
    """

    left: int
    slots_loaded: int
    slots_without: int
    slots_with: int
    moves: int
    cards_moved: float

    @property
    def gained(self) -> int:
        """Slots that moves opened."""
        return self.slots_with - self.slots_without


def depart_pods(stream: PlacementStream, held: Held, what: Departures, *, seed: int, card: int) -> Departed:
    """Let pods leave, drawn with the seed, and make the moves that open slots for waiting jobs.

    `held` is who has which place, in order of arrival; `card` is the core units of one card.
    """
    loaded = stream.count_slots(WAITING)
    leaving = set(Random(seed).sample(range(len(held)), round(len(held) * what.percent / 100)))
    staying = {}
    for index, (name, (asked, seat)) in enumerate(held.items()):
        if index in leaving:
            stream.release_task(asked, seat)
        else:
            staying[name] = (asked, seat)
    plan = stream.plan_moves(staying, WAITING, moves=what.moves)
    for move in plan.moves:
        stream.move_task(staying[move.task.id][0], move.task.placement, move.to)
    return Departed(
        left=len(leaving),
        slots_loaded=loaded,
        slots_without=plan.before,
        slots_with=stream.count_slots(WAITING),
        moves=len(plan.moves),
        cards_moved=plan.cores_moved / card,
    )
