"""Converts the platform's amounts to Kueue's quantities, and the limits of a quota node to Kueue's.

Kueue cannot charge a whole card by its memory, because a workload's request does not depend on its flavor.
Cards, compute and memory of whole cards go together, so the tightest of the three limits is projected, in
cards; parts of cards and MIG instances are counted as they are. Kueue has no unlimited amount either: a
number that no cluster reaches represents it, of which nothing is lent or borrowed, just as of an unlimited
nominal in the platform.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from clusters.backends.delegation import ProjectedFlavor, QuotaLimit
from clusters.backends.kueue.names import name_of
from clusters.gpu.nvidia import CARD_RESOURCE
from foundation.core.quantities import WHOLE_CARD, Resource

CORES: Final = "allotment.io/gpu-cores"
GPU_MEMORY: Final = "allotment.io/gpu-memory"
COVERED: Final = ("cpu", "memory", CARD_RESOURCE, CORES, GPU_MEMORY)
"""The resources that every flavor of a queue covers; those that it lacks are zero."""

_IN_PARTS: Final = ("slice", "mig")
_UNITS: Final = {"cpu": "m", "memory": "Mi"}
_ENDLESS: Final = {"memory": "4Pi"}
"""More than any cluster has, and small enough that Kueue can add two thousand of it; otherwise a billion."""
_DECIMAL: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_SUFFIXES: Final = {
    **{suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate(_DECIMAL, start=-3)},
    **{f"{suffix}i": Decimal(2) ** (10 * power) for power, suffix in enumerate("KMGTPE", start=1)},
}
_QUANTITY: Final = re.compile(r"([+-]?[0-9.]+)([A-Za-z]*)")

_Triple = tuple[int | None, int | None, int | None]
"""Nominal, borrowing limit, lending limit."""
_NOTHING: Final[_Triple] = (0, None, None)


def parse_quantity(text: object) -> Decimal | None:
    """Return the value of a quantity as Kubernetes writes it, or None for any other text."""
    found = _QUANTITY.fullmatch(str(text))
    if found is None or found[2] not in _SUFFIXES:
        return None
    return Decimal(found[1]) * _SUFFIXES[found[2]]


def task_requests(
    *, cpu_millicores: int, memory_mib: int, cards: int, cores: int, gpu_memory_mib: int
) -> dict[str, str]:
    """Return the amounts that one task is charged."""
    asked = {"cpu": f"{cpu_millicores}m", "memory": f"{memory_mib}Mi"}
    parts = {CARD_RESOURCE: cards, CORES: cores, GPU_MEMORY: gpu_memory_mib}
    return asked | {name: str(amount) for name, amount in parts.items() if amount}


def flavor_quotas(
    pools: Sequence[ProjectedFlavor], limits: Iterable[QuotaLimit], *, bounded: bool
) -> list[dict[str, Any]]:
    """Return the `flavors` of a queue or cohort; `bounded`: it has a parent to borrow from."""
    known: dict[tuple[str, str], _Triple] = {
        (limit.pool, limit.resource): (limit.nominal, limit.borrowing, limit.lending) for limit in limits
    }
    return [
        {
            "name": name_of(pool.id),
            "resources": [_quota(name, triple, bounded=bounded) for name, triple in _counted(pool, known)],
        }
        for pool in pools
    ]


def _counted(pool: ProjectedFlavor, known: Mapping[tuple[str, str], _Triple]) -> list[tuple[str, _Triple]]:
    def is_counted(resource: Resource) -> _Triple:
        return known.get((pool.id, resource.value), _NOTHING)

    cards, cores, memory = (
        is_counted(Resource.GPU_CARDS),
        is_counted(Resource.GPU_CORES),
        is_counted(Resource.GPU_MEMORY),
    )
    if pool.gpu_mode not in _IN_PARTS:
        units = (1, int(WHOLE_CARD), pool.card_memory_mib or 1)
        whole = [_in_cards(triple, unit) for triple, unit in zip((cards, cores, memory), units, strict=True)]
        cards, cores, memory = _tightest(whole), _NOTHING, _NOTHING
    amounts = (is_counted(Resource.CPU), is_counted(Resource.MEMORY), cards, cores, memory)
    return list(zip(COVERED, amounts, strict=True))


def _in_cards(triple: _Triple, unit: int) -> _Triple:
    nominal, borrowing, lending = (None if amount is None else amount // unit for amount in triple)
    return nominal, borrowing, lending


def _tightest(triples: Sequence[_Triple]) -> _Triple:
    nominal, borrowing, lending = (
        min((amount for amount in column if amount is not None), default=None)
        for column in zip(*triples, strict=True)
    )
    return nominal, borrowing, lending


def _quota(name: str, triple: _Triple, *, bounded: bool) -> dict[str, str]:
    nominal, borrowing, lending = triple
    if nominal is None:
        borrowing, lending = 0, 0
    quota = {"name": name, "nominalQuota": _written(name, nominal)}
    if bounded and borrowing is not None:
        quota["borrowingLimit"] = _written(name, borrowing)
    if bounded and lending is not None:
        quota["lendingLimit"] = _written(name, lending)
    return quota


def _written(name: str, amount: int | None) -> str:
    return _ENDLESS.get(name, "1G") if amount is None else f"{amount}{_UNITS.get(name, '')}"
