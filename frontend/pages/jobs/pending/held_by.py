"""The holders of the resources that a pending job lacks, as a table and a bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from foundation.core.quantities import Resource
from frontend.components.capacity import Segment, lay_out
from frontend.shell import navigation
from frontend.texts import formats, reasons
from scheduling.models import Job
from scheduling.selectors.pending.pool_holders import PoolHolders, list_pool_holders
from tenants.models import User


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderLine:
    """A row of the table: a tenant or a part of the pool, or a job of the reader's workspace (`is_job`)."""

    name: str
    amount: str
    nominal: str = ""
    borrowed: str = ""
    url: str = ""
    is_job: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBy:
    """One pool: its rows, the bar, and the bar as text."""

    pool: str
    total: str
    lines: Sequence[HolderLine]
    segments: Sequence[Segment]
    words: str


def describe_held_by(viewer: User, job: Job) -> list[HeldBy]:
    """Describe the holders of what a pending job lacks, by pool."""
    return [_describe(job, found) for found in list_pool_holders(viewer=viewer, job=job)]


def _describe(job: Job, found: PoolHolders) -> HeldBy:
    lines = [*_tenant_lines(job, found), *_other_lines(found)]
    total = format_amount(found.total, found.resource)
    whole = _("Total: %(total)s") % {"total": total}
    facts = [f"{line.name}{_(': ')}{line.amount}" for line in lines if not line.is_job]
    return HeldBy(
        pool=found.flavor.name,
        total=total,
        lines=lines,
        segments=list(lay_out(_parts(job, found), max(1, found.total))),
        words=_(", ").join([whole, *facts]),
    )


def format_amount(amount: int, resource: Resource) -> str:
    """Return an amount of a pool as text; compute is in GPUs."""
    if resource is Resource.GPU_CORES:
        return reasons.format_compute(amount)
    return reasons.format_resource_amount(amount, resource)


def _tenant_lines(job: Job, found: PoolHolders) -> Iterator[HolderLine]:
    def format_or_missing(amount: int) -> str:
        return format_amount(amount, found.resource) if amount else formats.MISSING

    for one in found.tenants:
        yield HolderLine(
            name=one.tenant.name if one.tenant else _("Other tenants"),
            amount=format_or_missing(one.amount),
            nominal=format_or_missing(one.nominal),
            borrowed=format_or_missing(one.borrowed),
        )
        if one.tenant is None or one.tenant.pk != job.workspace_id:
            continue
        for held in found.jobs:
            url = navigation.find_address(
                "frontend:job-detail", workspace=job.workspace.slug, job=str(held.job_id)
            )
            yield HolderLine(name=held.name, amount=format_or_missing(held.amount), url=url, is_job=True)
        if found.other_jobs:
            yield HolderLine(name=_("Other jobs"), amount=format_or_missing(found.other_jobs), is_job=True)


def _other_lines(found: PoolHolders) -> Iterator[HolderLine]:
    parts = (
        (_("Pods outside Allotment"), found.unmanaged),
        (_("Unavailable (unhealthy or cordoned)"), found.unavailable),
    )
    for name, amount in parts:
        if amount:
            yield HolderLine(name=name, amount=format_amount(amount, found.resource))
    yield HolderLine(name=_("Free"), amount=format_amount(found.free, found.resource))


def _parts(job: Job, found: PoolHolders) -> Iterator[tuple[str, float, float]]:
    """Yield the parts of the bar: the own workspace dark, other tenants light, borrowed quota of each
    striped.
    """
    for one in found.tenants:
        own = one.tenant is not None and one.tenant.pk == job.workspace_id
        yield "used" if own else "allocated", one.nominal, one.nominal
        yield "borrowed", one.borrowed, one.borrowed
    yield "foreign", found.unmanaged, found.unmanaged
    yield "held", found.unavailable, found.unavailable
