"""Amounts of quota as text, for sentences that users read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from foundation.core.quantities import Resource, format_cpu, format_memory

_ORDER: Final = (Resource.GPU_CARDS, Resource.GPU_CORES, Resource.GPU_MEMORY, Resource.CPU, Resource.MEMORY)


def describe_amounts(amounts: Mapping[Resource, int]) -> str:
    """Join amounts: `2 GPUs, GPU memory 80 GiB`; the compute of whole GPUs is left out."""
    whole = amounts.get(Resource.GPU_CORES) == 100 * amounts.get(Resource.GPU_CARDS, 0)
    shown = [each for each in _ORDER if each in amounts and not (whole and each is Resource.GPU_CORES)]
    return _(", ").join(_describe_amount(each, amounts[each]) for each in shown)


def _describe_amount(resource: Resource, amount: int) -> str:
    """Write an amount; one in GiB with the name of its resource."""
    text = format_amount(resource, amount)
    in_gib = resource in (Resource.GPU_MEMORY, Resource.MEMORY)
    return f"{resource_label(resource)} {text}" if in_gib else text


def format_amount(resource: Resource, amount: int | None) -> str:
    """Return an amount with its unit: `56 GPUs`, `64 GiB`, `compute of 2 GPUs`, `unlimited`."""
    if amount is None:
        return _("unlimited")
    if resource is Resource.GPU_CARDS:
        return ngettext("%(count)s GPU", "%(count)s GPUs", amount) % {"count": f"{amount:,}"}
    if resource is Resource.GPU_CORES:
        words = ngettext("compute of %(count)s GPU", "compute of %(count)s GPUs", 1 if amount == 100 else 2)
        return words % {"count": _format_cards(amount)}
    if resource is Resource.CPU:
        words = ngettext("%(count)s CPU core", "%(count)s CPU cores", 1 if amount == 1000 else 2)
        return words % {"count": format_cpu(amount)}
    return format_memory(amount)


def format_change(resource: Resource, before: int | None, after: int | None) -> str:
    """Write a change from one amount to another, whose resource is named beside it: `2 GPUs → 3 GPUs`."""
    return f"{_format_value(resource, before)} → {_format_value(resource, after)}"


def _format_value(resource: Resource, amount: int | None) -> str:
    if amount is None or resource is not Resource.GPU_CORES:
        return format_amount(resource, amount)
    words = ngettext("%(count)s GPU", "%(count)s GPUs", 1 if amount == 100 else 2)
    return words % {"count": _format_cards(amount)}


def _format_cards(points: int) -> str:
    return f"{points / 100:,.2f}".rstrip("0").rstrip(".")


def resource_label(resource: Resource) -> str:
    """Return the name of a resource."""
    return {
        Resource.GPU_CARDS: _("GPUs"),
        Resource.GPU_CORES: _("GPU compute"),
        Resource.GPU_MEMORY: _("GPU memory"),
        Resource.CPU: _("CPU"),
        Resource.MEMORY: _("memory"),
    }[resource]
