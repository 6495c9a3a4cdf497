"""The quota of a pool that a folder lacks, in words: who has it, and the raises that would cover it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _

from foundation.core.quantities import Resource
from frontend.texts import formats
from quotas.selectors.tables.quota_sources import QuotaLack, QuotaSource
from quotas.texts.amounts import format_amount, resource_label

_SHOWN_FIRST = (Resource.GPU_CARDS, Resource.GPU_CORES, Resource.GPU_MEMORY, Resource.CPU, Resource.MEMORY)


@dataclass(frozen=True, slots=True)
class SourceLink:
    """A tenant that has quota left, with the address where it is divided."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class WayOut:
    """The lack of one pool in words. `raising` names the raises; it is empty where they are not possible."""

    text: str
    raising: str
    sources: Sequence[SourceLink]


def describe_lack(lack: QuotaLack) -> WayOut:
    """Return the texts of one lack."""
    names = {"folder": lack.node.tenant.name, "amounts": _amounts(lack.short), "pool": lack.flavor.name}
    return WayOut(
        text=_("%(folder)s lacks %(amounts)s of %(pool)s.") % names,
        raising="; ".join(
            _("%(name)s by %(amounts)s") % {"name": one.node.tenant.name, "amounts": _amounts(one.increases)}
            for one in reversed(lack.raises)
        ),
        sources=[_source(lack, source) for source in lack.sources],
    )


def _amounts(amounts: Mapping[Resource, int]) -> str:
    """The amounts; of compute that belongs to whole GPUs nothing is said."""
    shown = [resource for resource in _SHOWN_FIRST if resource in amounts]
    if Resource.GPU_CARDS in shown and Resource.GPU_CORES in shown:
        shown.remove(Resource.GPU_CORES)
    return _(", ").join(_amount(resource, amounts[resource]) for resource in shown)


def _amount(resource: Resource, amount: int) -> str:
    """An amount; one in GiB with the name of its resource."""
    text = format_amount(resource, amount)
    return (
        f"{resource_label(resource)} {text}" if resource in (Resource.GPU_MEMORY, Resource.MEMORY) else text
    )


def _source(lack: QuotaLack, source: QuotaSource) -> SourceLink:
    words = {"name": source.node.queue.name if source.node.is_queue else source.node.tenant.name}
    if source.is_above:
        gpus = _("unlimited") if source.amount is None else formats.format_gpus(source.amount)
        text = _("%(name)s: %(gpus)s GPUs unassigned") % {**words, "gpus": gpus}
    else:
        of = formats.format_gpus(source.of or 0)
        words |= {"gpus": formats.format_gpus(source.amount or 0), "of": of}
        text = _("%(name)s: %(gpus)s of %(of)s GPUs unused") % words
    query = {"pool": str(lack.flavor.pk), "open": str(lack.node.pk)}
    return SourceLink(text, f"{reverse('frontend:ops-quota-tree')}?{urlencode(query)}#node-{source.node.pk}")
