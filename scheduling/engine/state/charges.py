"""What a task is charged. Cards, cores and card memory are per card times cards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from foundation.core.quantities import Resource
from scheduling.engine.model import (
    Charge,
    Extended,
    Flavor,
    FlavorResource,
    Job,
    PlacementRules,
    Request,
    ResourceName,
)
from scheduling.engine.state.shape import TaskShape, resolve

ANYWHERE = PlacementRules()
REMEMBERED = 16_384


@lru_cache(maxsize=REMEMBERED)
def task_charges(task: TaskShape, extended: tuple[Extended, ...] = ()) -> tuple[Charge, ...]:
    """The charges of one task, sorted, without zeros. `extended` is what it asks for by name.

    A whole card charges the flavor's nominal card memory, whatever the device reports, so that a
    job's price does not depend on the card it happens to get.
    """
    amounts = _amounts(task, extended)
    return tuple(sorted(Charge(task.flavor, what, amount) for what, amount in amounts.items() if amount))


def demand(request: Request, flavor: Flavor) -> Mapping[ResourceName, int]:
    """What one task with this request is charged in a flavor, sorted by resource.

    Zeros are left out, except where a named resource is asked for with an amount of zero.
    """
    return _demand(request, flavor.id, flavor.card_cores, flavor.card_memory, flavor.mig_slices)


def asked_of(job: Job, more: Mapping[str, int], flavor: Flavor) -> dict[FlavorResource, int]:
    """What so many more tasks of each role are charged in one flavor."""
    asked: dict[FlavorResource, int] = {}
    for role in job.roles:
        for resource, each in demand(role.request, flavor).items():
            key = FlavorResource(flavor.id, resource)
            asked[key] = asked.get(key, 0) + each * more.get(role.name, 0)
    return asked


def chosen_charges(request: Request, flavors: Mapping[ResourceName, Flavor]) -> tuple[Charge, ...]:
    """The charges of one task whose resources come from these flavors, sorted, without zeros."""
    found = (
        Charge(flavor.id, name, demand(request, flavor).get(name, 0)) for name, flavor in flavors.items()
    )
    return tuple(sorted(charge for charge in found if charge.amount))


def of_nodes(request: Request) -> frozenset[ResourceName]:
    """The resources that a task takes from the node it stands on."""
    named = [item.resource for item in request.extended if item.amount]
    plain = [(Resource.CPU, request.cpu), (Resource.MEMORY, request.memory)]
    cards = (Resource.GPU_CARDS, Resource.GPU_CORES, Resource.GPU_MEMORY) if request.gpu else ()
    return frozenset((*(name for name, amount in plain if amount), *cards, *named))


@lru_cache(maxsize=REMEMBERED)
def _demand(
    request: Request, flavor_id: str, card_cores: int, card_memory: int, mig_slices: int
) -> Mapping[ResourceName, int]:
    # Nothing else of a flavor bears on the charges, so nothing else is part of the key.
    flavor = Flavor(id=flavor_id, card_cores=card_cores, card_memory=card_memory, mig_slices=mig_slices)
    amounts = _amounts(resolve(request, ANYWHERE, flavor), (*request.extended, *request.charged))
    named = {item.resource for item in (*request.extended, *request.charged)}
    return {what: amounts[what] for what in sorted(amounts) if amounts[what] or what in named}


def _amounts(task: TaskShape, extended: Iterable[Extended]) -> dict[ResourceName, int]:
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


def times(charges: Iterable[Charge], count: int) -> tuple[Charge, ...]:
    """The charges of several like tasks."""
    return tuple(Charge(charge.flavor, charge.resource, charge.amount * count) for charge in charges)


def summed(charges: Iterable[Charge]) -> dict[FlavorResource, int]:
    """Total per flavor and resource."""
    total: dict[FlavorResource, int] = {}
    for charge in charges:
        total[charge.key] = total.get(charge.key, 0) + charge.amount
    return total


@lru_cache(maxsize=REMEMBERED)
def priced(charges: tuple[Charge, ...]) -> Mapping[FlavorResource, int]:
    """As `summed`, and the same object for equal charges; not to be written to."""
    return summed(charges)


def merged(parts: Iterable[Mapping[FlavorResource, int]]) -> dict[FlavorResource, int]:
    """The sum of several totals."""
    total: dict[FlavorResource, int] = {}
    for part in parts:
        for key, amount in part.items():
            total[key] = total.get(key, 0) + amount
    return total
