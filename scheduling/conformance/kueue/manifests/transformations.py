"""Resource transformations: a resource that is charged as other resources, additionally or instead.

They change only the charge to quota; a pod takes from its node what its template requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from scheduling.conformance.kueue.manifests import quantities


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """A transformation: `outputs` are the amounts for one canonical unit of `resource`, in canonical
    units."""

    resource: str
    outputs: tuple[tuple[str, Fraction], ...]
    retain: bool = False


def read_transformation(value: Mapping[str, Any]) -> Transformation:
    """Return an entry of `resources.transformations` of Kueue's configuration."""
    source, outputs = value["input"], value.get("outputs", {})
    return Transformation(
        resource=source,
        outputs=tuple(
            (name, Fraction(quantities.value_of(outputs[name])) * _unit(name) / _unit(source))
            for name in sorted(outputs)
        ),
        retain=value.get("strategy") == "Retain",
    )


def transform_amounts(amounts: Mapping[str, int], rules: Iterable[Transformation]) -> dict[str, int]:
    """Return the amounts that are charged to quota, rounded up.

    The amounts of an admitted workload are transformed already: a rule whose outputs are present is skipped.
    """
    result = dict(amounts)
    more: dict[str, Fraction] = {}
    for rule in rules:
        given = amounts.get(rule.resource)
        if given is None or any(name in amounts for name, _ in rule.outputs):
            continue
        if not rule.retain:
            result.pop(rule.resource, None)
        for name, each in rule.outputs:
            more[name] = more.get(name, Fraction(0)) + given * each
    return result | {name: quantities.cap_amount(result.get(name, 0) + ceil(more[name])) for name in more}


def _unit(resource: str) -> int:
    """Return the number of canonical units in one base unit."""
    return 1000 if resource == quantities.CPU else 1
