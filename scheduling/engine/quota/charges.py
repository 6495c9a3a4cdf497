"""What a task is charged. Cards, cores and card memory are per card times cards."""

from __future__ import annotations

from collections.abc import Iterable

from foundation.quantities import Resource
from scheduling.engine.model import Charge, FlavorResource
from scheduling.engine.placement.shape import TaskShape


def task_charges(task: TaskShape) -> tuple[Charge, ...]:
    """The charges of one task, sorted, without zeros.

    A whole card charges the flavor's nominal card memory, whatever the device reports, so that a
    job's price does not depend on the card it happens to get.
    """
    amounts = {
        Resource.CPU: task.cpu,
        Resource.MEMORY: task.memory,
        Resource.GPU_CARDS: task.cards,
        Resource.GPU_CORES: task.cards * task.cores,
        Resource.GPU_MEMORY: task.cards * task.card_memory,
    }
    return tuple(sorted(Charge(task.flavor, what, amount) for what, amount in amounts.items() if amount))


def times(charges: Iterable[Charge], count: int) -> tuple[Charge, ...]:
    """The charges of several like tasks."""
    return tuple(Charge(charge.flavor, charge.resource, charge.amount * count) for charge in charges)


def summed(charges: Iterable[Charge]) -> dict[FlavorResource, int]:
    """Total per flavor and resource."""
    total: dict[FlavorResource, int] = {}
    for charge in charges:
        total[charge.key] = total.get(charge.key, 0) + charge.amount
    return total
