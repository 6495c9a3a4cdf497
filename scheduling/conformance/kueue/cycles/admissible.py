"""Checks a head before its quota is evaluated: admission checks, namespace, limit ranges of a namespace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduling.conformance.fields import CaseFields
from scheduling.conformance.kueue.cycles.pending import Bar
from scheduling.conformance.kueue.manifests import quantities
from scheduling.conformance.kueue.manifests.objects import Aside

Amounts = dict[str, int]


def find_bar(
    workload: Mapping[str, Any], aside: Aside | None, objects: Sequence[Mapping[str, Any]]
) -> Bar | None:
    """Return why a head is requeued at once, or None."""
    source = CaseFields(workload, "Workload:")
    states = {
        check.read_text("state") for check in source.read_object("status").read_objects("admissionChecks")
    }
    if states & {"Retry", "Rejected"}:
        return Bar.CHECKS
    if aside is Aside.NAMESPACE_MISMATCH:
        return Bar.NAMESPACE
    namespace = source.read_object("metadata").read_text("namespace")
    limits = [
        limit
        for entry in objects
        if entry.get("kind") == "LimitRange" and entry["metadata"].get("namespace") == namespace
        for limit in CaseFields(entry, "LimitRange:").read_object("spec").read_objects("limits")
    ]
    pods = [
        podset.read_object("template", "spec")
        for podset in source.read_object("spec").read_objects("podSets")
    ]
    return None if all(_valid(pod, limits) for pod in pods) else Bar.INVALID


def _valid(pod: CaseFields, limits: Sequence[CaseFields]) -> bool:
    containers = [*pod.read_objects("initContainers"), *pod.read_objects("containers")]
    if any(_above(_amounts(c, "requests"), _amounts(c, "limits")) for c in containers):
        return False
    total: Amounts = {}
    for container in pod.read_objects("containers"):
        for name, number in _asked(container).items():
            total[name] = total.get(name, 0) + number
    for limit in limits:
        asked = {"Container": [_asked(c) for c in containers], "Pod": [total]}.get(
            limit.read_text("type"), []
        )
        most, least = _of(limit.read_object("max")), _of(limit.read_object("min"))
        if any(_above(amounts, most) or _above(least, amounts) for amounts in asked):
            return False
    return True


def _asked(container: CaseFields) -> Amounts:
    return _amounts(container, "limits") | _amounts(container, "requests")


def _amounts(container: CaseFields, kind: str) -> Amounts:
    return _of(container.read_object("resources", kind))


def _of(source: CaseFields) -> Amounts:
    return dict(_each(source))


def _each(source: CaseFields) -> Iterator[tuple[str, int]]:
    for name, text in source.value.items():
        yield name, quantities.parse_amount(text, name)


def _above(amounts: Amounts, bounds: Amounts) -> bool:
    """Return whether an amount is above its bound; resources that only one side has do not count."""
    return any(amounts[name] > bounds[name] for name in amounts if name in bounds)
