"""The quota of a pool that a folder lacks, as text: its sources, and the raises that would cover it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _

from frontend.texts import formats
from frontend.texts.pools import Place, name_pool
from quotas.selectors.tables.quota_sources import QuotaLack, QuotaSource
from quotas.texts.amounts import describe_amounts


@dataclass(frozen=True, slots=True)
class SourceLink:
    """A tenant that has quota left, with the address where it is divided."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class WayOut:
    """The lack in one pool as text. `raising` describes the raises, or why they are not possible."""

    text: str
    raising: str
    sources: Sequence[SourceLink]


def describe_lacks(lacks: Sequence[QuotaLack]) -> list[WayOut]:
    """Return the texts of the lacks of a request or a team."""
    pools = [_place(lack) for lack in lacks]
    return [_describe_lack(lack, name_pool(_place(lack), pools)) for lack in lacks]


def _place(lack: QuotaLack) -> Place:
    return lack.flavor.cluster.name, lack.flavor.name


def _describe_lack(lack: QuotaLack, pool: str) -> WayOut:
    names = {"folder": lack.node.tenant.name, "amounts": describe_amounts(lack.short), "pool": pool}
    return WayOut(
        text=_("%(folder)s lacks %(amounts)s of %(pool)s.") % names,
        raising=_describe_raises(lack),
        sources=[_source(lack, source) for source in lack.sources],
    )


def _describe_raises(lack: QuotaLack) -> str:
    """Describe the raises that would cover a lack, or what else can be done."""
    if lack.raises:
        raises = _("; ").join(
            _("%(name)s by %(amounts)s")
            % {"name": one.node.tenant.name, "amounts": describe_amounts(one.increases)}
            for one in reversed(lack.raises)
        )
        return _("Raise %(raising)s.") % {"raising": raises}
    if lack.exceeds_pool:
        return _(
            "A raise would exceed the size of the pool. Reduce the quota of another tenant, or add nodes."
        )
    if lack.node.tenant.parent is None:
        return _("Only a platform admin can raise the quota of %(name)s.") % {"name": lack.node.tenant.name}
    return _("Parent tenants don't have enough unassigned quota, or another admin decides about it.")


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
