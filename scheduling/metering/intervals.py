"""Computes intervals in which a run of a job held a constant amount of GPUs, with integers only.

Amounts are percent points of a GPU, as in the ledger of quotas, and times are milliseconds since 1970, so
that budgets and reports of the same period agree exactly.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from foundation.core.quantities import Resource

WHOLE_GPU: Final = 100
PoolKey = tuple[uuid.UUID, bool]
"""A flavor, and whether the GPUs are slices or MIG instances."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A constant amount that one task held from `begin_ms` until before `end_ms`.

    `cores` is its compute, and `billed` the larger one of its compute and its share of GPU memory.
    """

    flavor_id: uuid.UUID
    sliced: bool
    begin_ms: int
    end_ms: int
    cores: int
    billed: int


class Interval(NamedTuple):
    """The amount that one run of a job held of a flavor from `begin_ms` until before `end_ms`.

    `borrowed` is the part of `cores` beyond the own quota at admission, `lost` the part whose work a
    preemption discarded.
    """

    flavor_id: uuid.UUID
    sliced: bool
    begin_ms: int
    end_ms: int
    cores: int
    billed: int
    borrowed: int
    lost: int


def gpu_percent(charge: Mapping[str, int]) -> int:
    """Return the charged compute of a task, in percent points of a GPU."""
    cores = charge.get(Resource.GPU_CORES, 0)
    return cores or WHOLE_GPU * charge.get(Resource.GPU_CARDS, 0)


def billed_percent(charge: Mapping[str, int], *, sliced: bool, card_memory_mib: int) -> int:
    """Return the billed share of GPUs of a task, in percent points.

    A whole GPU is 100. A slice is the larger one of its compute and its memory, the latter rounded up to a
    whole percent, because no other task can use a GPU whose memory is taken.
    """
    cores = gpu_percent(charge)
    if not sliced or not card_memory_mib:
        return cores
    return max(cores, -(-WHOLE_GPU * charge.get(Resource.GPU_MEMORY, 0) // card_memory_mib))


def split_by_flavor(amounts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return the GPUs and their compute by flavor from amounts by `flavor/resource`."""
    by_flavor: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for key, amount in amounts.items():
        flavor, _, resource = key.partition("/")
        if resource in (Resource.GPU_CORES, Resource.GPU_CARDS):
            by_flavor[flavor][resource] = amount
    return dict(by_flavor)


def borrowed_by_flavor(borrowed: Mapping[str, int], held: Mapping[str, int]) -> dict[str, int]:
    """Return the compute that a job borrows of each flavor, in percent points of a GPU; both amounts by
    `flavor/resource`.

    If compute has no limit, no compute is borrowed; then the borrowed number of GPUs counts, each with the
    share of a GPU that the job holds there.
    """
    of_job = split_by_flavor(held)
    found = {}
    for flavor, amounts in split_by_flavor(borrowed).items():
        one = of_job.get(flavor) or {Resource.GPU_CARDS: 1}
        cards = amounts.get(Resource.GPU_CARDS, 0)
        by_number = round(cards * gpu_percent(one) / (one.get(Resource.GPU_CARDS) or 1))
        found[flavor] = amounts.get(Resource.GPU_CORES) or by_number
    return found


def borrowed_percent(borrowed: Mapping[str, int], held: Mapping[str, int]) -> int:
    """Return the sum of `borrowed_by_flavor` over all flavors."""
    return sum(borrowed_by_flavor(borrowed, held).values())


def count_gpus(held: Mapping[str, int]) -> float:
    """Return how many GPUs a job holds from amounts by `flavor/resource`; a slice is its share of a GPU."""
    return sum(map(gpu_percent, split_by_flavor(held).values())) / WHOLE_GPU


def count_borrowed_gpus(borrowed: Mapping[str, int], held: Mapping[str, int]) -> float:
    """Return how many GPUs a job borrows; a slice is its share of a GPU."""
    return borrowed_percent(borrowed, held) / WHOLE_GPU


def lost_since_ms(*, started_ms: int | None, ended_ms: int, checkpoint_interval_s: int | None) -> int:
    """Return the instant of the last checkpoint of a preempted run; all work after it is lost.

    It is the end for a run that never started, and the start for a job without checkpoints.
    """
    if started_ms is None or started_ms >= ended_ms:
        return ended_ms
    ran_ms = ended_ms - started_ms
    return ended_ms - (ran_ms % (1000 * checkpoint_interval_s) if checkpoint_interval_s else ran_ms)


def attempt_intervals(
    holds: Iterable[Hold],
    *,
    borrowed: Mapping[uuid.UUID, int],
    lost: tuple[int, int] | None = None,
) -> list[Interval]:
    """Return the intervals of one run from the amounts of its tasks, in order of time.

    `borrowed` is the compute borrowed at admission, by flavor. The amount beyond the rest counts as borrowed,
    so that a run that shrinks returns borrowed quota first. `lost` is the period whose work was discarded.
    """
    held = [hold for hold in holds if hold.begin_ms < hold.end_ms and hold.cores]
    if len({(one.flavor_id, one.sliced, one.begin_ms, one.end_ms) for one in held}) == 1:
        return _cut_lost(_only_interval(held, borrowed), lost)
    own = _own_cores(held, borrowed)
    open_since: dict[PoolKey, Interval] = {}
    found: list[Interval] = []
    for begin, end, amounts in _steps(held, lost or (0, 0)):
        is_lost = lost is not None and lost[0] <= begin and end <= lost[1]
        steps = {
            (step.flavor_id, step.sliced): step
            for step in _intervals_of_step(begin, end, amounts, own, borrowed, is_lost=is_lost)
        }
        for key in open_since.keys() - steps.keys():
            found.append(open_since.pop(key))
        for key, step in steps.items():
            before = open_since.get(key)
            if before is not None and _continues(before, step):
                open_since[key] = before._replace(end_ms=step.end_ms)
            else:
                found += [before] if before is not None else []
                open_since[key] = step
    found += open_since.values()
    return sorted(found, key=lambda one: (one.begin_ms, str(one.flavor_id), one.sliced))


def _only_interval(holds: Sequence[Hold], borrowed: Mapping[uuid.UUID, int]) -> Interval:
    """Return the single interval of tasks that hold the same pool all the time, as in nearly all runs."""
    first, cores = holds[0], sum(hold.cores for hold in holds)
    times = (first.begin_ms, first.end_ms)
    billed, part = sum(hold.billed for hold in holds), min(cores, borrowed.get(first.flavor_id, 0))
    return Interval(first.flavor_id, first.sliced, *times, cores, billed, part, 0)


def _cut_lost(only: Interval, lost: tuple[int, int] | None) -> list[Interval]:
    """Split an interval at the period whose work was discarded, and mark that part as lost."""
    if lost is None:
        return [only]
    begin, end = max(lost[0], only.begin_ms), min(lost[1], only.end_ms)
    if begin >= end:
        return [only]
    parts = [
        only._replace(end_ms=begin),
        only._replace(begin_ms=begin, end_ms=end, lost=only.cores),
        only._replace(begin_ms=end),
    ]
    return [part for part in parts if part.begin_ms < part.end_ms]


Amounts = Mapping[PoolKey, tuple[int, int]]


def _own_cores(holds: Sequence[Hold], borrowed: Mapping[uuid.UUID, int]) -> dict[uuid.UUID, int]:
    """Return the compute that a run held within its own quota at its admission, by flavor."""
    admitted = min((hold.begin_ms for hold in holds), default=0)
    held: defaultdict[uuid.UUID, int] = defaultdict(int)
    for hold in holds:
        if hold.begin_ms == admitted:
            held[hold.flavor_id] += hold.cores
    return {flavor: max(0, cores - borrowed.get(flavor, 0)) for flavor, cores in held.items()}


def _steps(holds: Sequence[Hold], cuts: tuple[int, int]) -> Iterator[tuple[int, int, Amounts]]:
    changes: defaultdict[int, list[tuple[PoolKey, int, int]]] = defaultdict(list)
    for hold in holds:
        key = (hold.flavor_id, hold.sliced)
        changes[hold.begin_ms].append((key, hold.cores, hold.billed))
        changes[hold.end_ms].append((key, -hold.cores, -hold.billed))
    if changes:
        first, last = min(changes), max(changes)
        for cut in cuts:
            if first < cut < last:
                changes[cut] = changes.get(cut, [])
    now: dict[PoolKey, tuple[int, int]] = {}
    times = sorted(changes)
    for begin, end in pairwise(times):
        for key, cores, billed in changes[begin]:
            before = now.get(key, (0, 0))
            now[key] = (before[0] + cores, before[1] + billed)
        yield begin, end, {key: amount for key, amount in now.items() if amount[0]}


def _intervals_of_step(
    begin: int,
    end: int,
    amounts: Amounts,
    own: Mapping[uuid.UUID, int],
    borrowed: Mapping[uuid.UUID, int],
    *,
    is_lost: bool,
) -> Iterator[Interval]:
    """Yield the intervals of one step; the borrowed compute of a flavor counts for whole GPUs first, then
    slices."""
    rest: dict[uuid.UUID, int] = {}
    for flavor in {flavor for flavor, _ in amounts}:
        held = sum(cores for (other, _), (cores, _) in amounts.items() if other == flavor)
        rest[flavor] = min(borrowed.get(flavor, 0), max(0, held - own.get(flavor, 0)))
    for key in sorted(amounts, key=lambda key: (str(key[0]), key[1])):
        cores, billed = amounts[key]
        part = min(cores, rest[key[0]])
        rest[key[0]] -= part
        yield Interval(*key, begin, end, cores, billed, part, cores if is_lost else 0)


def _continues(before: Interval, after: Interval) -> bool:
    return before.end_ms == after.begin_ms and (
        (before.cores, before.billed, before.borrowed, before.lost)
        == (after.cores, after.billed, after.borrowed, after.lost)
    )
