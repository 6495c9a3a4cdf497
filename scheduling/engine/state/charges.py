"""The charges of tasks. Cores and card memory are per card, times the number of cards."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache

from foundation.core.quantities import Resource
from scheduling.engine.model import (
    ANYWHERE,
    Allocation,
    Charge,
    Extended,
    Flavor,
    FlavorResource,
    Job,
    Request,
    ResourceName,
)
from scheduling.engine.state.task_shape import TaskShape, resolve_shape

CACHE_SIZE = 16_384


@lru_cache(maxsize=CACHE_SIZE)
def compute_task_charges(task: TaskShape, extended: tuple[Extended, ...] = ()) -> tuple[Charge, ...]:
    """Return the charges of one task, sorted, without zeros; `extended` are its named resources.

    A whole card is charged the flavor's nominal card memory, whatever the device reports, so that the charge
    of a job does not depend on the card that it gets.
    """
    amounts = _sum_amounts(task, extended)
    return tuple(sorted(Charge(task.flavor, what, amount) for what, amount in amounts.items() if amount))


def compute_demand(request: Request, flavor: Flavor) -> Mapping[ResourceName, int]:
    """Return the charge of one task with this request in a flavor, sorted by resource.

    Zeros are left out, except for a named resource that is requested with an amount of zero.
    """
    return _compute_demand_cached(
        request, flavor.id, flavor.card_cores, flavor.card_memory, flavor.mig_slices
    )


def compute_job_demand(job: Job, more: Mapping[str, int], flavor: Flavor) -> dict[FlavorResource, int]:
    """Return the charge in one flavor of `more` tasks, given by role."""
    asked: dict[FlavorResource, int] = {}
    for role in job.roles:
        for resource, each in compute_demand(role.request, flavor).items():
            key = FlavorResource(flavor.id, resource)
            asked[key] = asked.get(key, 0) + each * more.get(role.name, 0)
    return asked


def charges_in_flavors(request: Request, flavors: Mapping[ResourceName, Flavor]) -> tuple[Charge, ...]:
    """Return the charges of one task whose resources come from these flavors, sorted, without zeros."""
    found = (
        Charge(flavor.id, name, compute_demand(request, flavor).get(name, 0))
        for name, flavor in flavors.items()
    )
    return tuple(sorted(charge for charge in found if charge.amount))


def node_resources_of(request: Request) -> frozenset[ResourceName]:
    """Return the resources that a task takes from its node."""
    named = [item.resource for item in request.extended if item.amount]
    plain = [(Resource.CPU, request.cpu), (Resource.MEMORY, request.memory)]
    cards = (Resource.GPU_CARDS, Resource.GPU_CORES, Resource.GPU_MEMORY) if request.gpu else ()
    return frozenset((*(name for name, amount in plain if amount), *cards, *named))


@lru_cache(maxsize=CACHE_SIZE)
def _compute_demand_cached(
    request: Request, flavor_id: str, card_cores: int, card_memory: int, mig_slices: int
) -> Mapping[ResourceName, int]:
    # No other field of a flavor changes the charges, so no other field is part of the key.
    flavor = Flavor(id=flavor_id, card_cores=card_cores, card_memory=card_memory, mig_slices=mig_slices)
    amounts = _sum_amounts(resolve_shape(request, ANYWHERE, flavor), (*request.extended, *request.charged))
    named = {item.resource for item in (*request.extended, *request.charged)}
    return {what: amounts[what] for what in sorted(amounts) if amounts[what] or what in named}


def _sum_amounts(task: TaskShape, extended: Iterable[Extended]) -> dict[ResourceName, int]:
    amounts: dict[ResourceName, int] = {
        Resource.CPU: task.cpu,
        Resource.MEMORY: task.memory,
        Resource.GPU_CARDS: task.cards,
        Resource.GPU_CORES: task.cards * task.cores,
        Resource.GPU_MEMORY: task.cards * task.card_memory,
    }
    for item in extended:
        amounts[item.resource] = amounts.get(item.resource, 0) + item.amount
    return amounts


def multiply_charges(charges: Iterable[Charge], count: int) -> tuple[Charge, ...]:
    """Return the charges of `count` equal tasks."""
    return tuple(Charge(charge.flavor, charge.resource, charge.amount * count) for charge in charges)


def sum_charges(charges: Iterable[Charge]) -> dict[FlavorResource, int]:
    """Return the total per flavor and resource."""
    total: dict[FlavorResource, int] = {}
    for charge in charges:
        total[charge.key] = total.get(charge.key, 0) + charge.amount
    return total


@lru_cache(maxsize=CACHE_SIZE)
def sum_charges_cached(charges: tuple[Charge, ...]) -> Mapping[FlavorResource, int]:
    """Return what `sum_charges` returns, the same object for equal charges; callers must not write to it."""
    return sum_charges(charges)


def sum_task_charges(tasks: Iterable[Allocation]) -> dict[FlavorResource, int]:
    """Return what tasks are charged together."""
    return add_totals(sum_charges_cached(task.charges) for task in tasks)


def sum_charges_by_queue(tasks: Iterable[Allocation]) -> defaultdict[str, Counter[FlavorResource]]:
    """Return the total per flavor and resource that is charged to each queue; empty for other queues."""
    total: defaultdict[str, Counter[FlavorResource]] = defaultdict(Counter)
    for (queue, charges), count in Counter((task.queue, task.charges) for task in tasks).items():
        amounts = total[queue]
        for key, amount in sum_charges_cached(charges).items():
            amounts[key] += amount * count
    return total


def add_totals(parts: Iterable[Mapping[FlavorResource, int]]) -> dict[FlavorResource, int]:
    """Return the sum of several totals."""
    total: dict[FlavorResource, int] = {}
    for part in parts:
        for key, amount in part.items():
            total[key] = total.get(key, 0) + amount
    return total
