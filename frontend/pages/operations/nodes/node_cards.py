"""The GPUs of one node in detail, and their holders."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from clusters.models import Device, ForeignOrigin, ForeignPod
from foundation.core.quantities import format_cpu
from frontend.components.capacity import Meter
from frontend.pages.operations.overview.summary import job_url
from frontend.shell import navigation
from frontend.texts import formats
from scheduling.models import Allocation
from scheduling.selectors.allocations.holder import DeviceHold
from telemetry.series import CardNow


@dataclass(frozen=True, slots=True, kw_only=True)
class CardPart:
    """One holder's part of a GPU: start and width in percent of its compute, memory in MiB."""

    start: float
    width: float
    cores: int
    memory_mib: int
    exclusive: bool
    job: str
    url: str
    workspace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardView:
    """One GPU as the node's page draws it. Readings are None without one in the last 30 s."""

    key: str
    name: str
    uuid: str
    url: str
    model: str
    state: str
    compute: Meter
    memory: Meter
    cores_allocated: float
    cores_foreign: int
    memory_foreign: int
    memory_capacity: int
    memory_allocated: int
    now: CardNow | None
    shares: Sequence[CardPart]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRow:
    """One task on the node: its job, its resources, and its start."""

    key: uuid.UUID
    job: str
    url: str
    workspace: str
    user: str
    task: str
    state: str
    cards: str
    compute: str
    memory_mib: int
    cpu: str
    host_memory_mib: int
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRow:
    """One pod outside Allotment on the node, and its resources."""

    key: uuid.UUID
    pod: str
    origin: str
    owner: str
    state: str
    cards: str
    cpu: str
    memory_mib: int


Holds = Mapping[uuid.UUID, Sequence[DeviceHold]]


def card_views(devices: Iterable[Device], holds: Holds, now: Mapping[uuid.UUID, CardNow]) -> list[CardView]:
    """Return the GPUs by index."""
    return [_card(device, holds.get(device.pk, ()), now.get(device.pk)) for device in devices]


def _card(device: Device, holds: Sequence[DeviceHold], now: CardNow | None) -> CardView:
    return CardView(
        key=f"gpu-{device.index}",
        name=f"GPU {device.index}",
        uuid=device.uuid,
        url=navigation.find_address("frontend:ops-gpu", uuid=device.uuid),
        model=device.model,
        state="healthy" if device.healthy else "unhealthy",
        compute=Meter(
            nominal=device.cores_capacity,
            allocated=device.cores_granted,
            used=min(now.utilisation_percent, device.cores_granted) if now else None,
            foreign=device.cores_foreign,
            unit="%",
        ),
        memory=Meter(
            nominal=device.memory_capacity / 1024,
            allocated=device.memory_granted / 1024,
            used=min(now.memory_used_mib, device.memory_granted) / 1024 if now else None,
            foreign=device.memory_foreign / 1024,
            unit="GiB",
        ),
        cores_allocated=device.cores_granted,
        cores_foreign=device.cores_foreign,
        memory_foreign=device.memory_foreign,
        memory_capacity=device.memory_capacity,
        memory_allocated=device.memory_granted,
        now=now,
        shares=_shares(holds, max(1, device.cores_capacity)),
    )


def _shares(holds: Iterable[DeviceHold], capacity: int) -> list[CardPart]:
    """Return the parts of holders side by side, in the order of their allocation."""
    found, start = [], 0
    for hold in holds:
        job = hold.allocation.attempt.job
        found.append(
            CardPart(
                start=round(100 * start / capacity, 2),
                width=round(100 * hold.cores / capacity, 2),
                cores=hold.cores,
                memory_mib=hold.memory_mib,
                exclusive=hold.exclusive,
                job=job.name,
                url=job_url(job.workspace.slug, job.pk),
                workspace=job.workspace.name,
            )
        )
        start += hold.cores
    return found


def hold_rows(allocations: Iterable[Allocation], devices: Iterable[Device], holds: Holds) -> list[HoldRow]:
    """Return all allocations on the node, oldest first, including pods without a GPU."""
    by_allocation: dict[uuid.UUID, list[tuple[int, DeviceHold]]] = {}
    for device in devices:
        for hold in holds.get(device.pk, ()):
            by_allocation.setdefault(hold.allocation.pk, []).append((device.index, hold))
    return [_hold(row, by_allocation.get(row.pk, ())) for row in allocations]


def _hold(row: Allocation, held: Sequence[tuple[int, DeviceHold]]) -> HoldRow:
    job = row.attempt.job
    return HoldRow(
        key=row.pk,
        job=job.name,
        url=job_url(job.workspace.slug, job.pk),
        workspace=job.workspace.name,
        user=job.submitted_by.get_username(),
        task=f"{row.task.role.name}-{row.task.index}",
        state=row.task.state,
        cards=format_ranges([index for index, _hold_ in held]),
        compute=_compute(sum(hold.cores for _index, hold in held)),
        memory_mib=sum(hold.memory_mib for _index, hold in held),
        cpu=format_cpu(row.cpu_millicores),
        host_memory_mib=row.memory_mib,
        since=row.created_at,
    )


def _compute(cores: int) -> str:
    """Return percent points of compute as text: whole GPUs as such, less than one in percent."""
    if not cores:
        return formats.MISSING
    if cores % 100:
        return formats.format_percent(cores)
    return ngettext("%(n)s GPU", "%(n)s GPUs", cores // 100) % {"n": cores // 100}


def foreign_rows(pods: Iterable[ForeignPod], devices: Iterable[Device]) -> list[ForeignRow]:
    """Return the pods outside Allotment as rows of a table."""
    indices = {device.uuid: device.index for device in devices}
    return [
        ForeignRow(
            key=pod.pk,
            pod=f"{pod.namespace}/{pod.name}",
            origin="" if pod.origin == ForeignOrigin.OTHER else str(ForeignOrigin(pod.origin).label),
            owner=pod.owner,
            state="leaving" if pod.leaving else "running",
            cards=_foreign_cards(pod, indices),
            cpu=format_cpu(pod.cpu_millicores),
            memory_mib=pod.memory_mib,
        )
        for pod in pods
    ]


def _foreign_cards(pod: ForeignPod, indices: Mapping[str, int]) -> str:
    """Return `2 GPUs`, `3 × 1g.5gb`, or the parts of known GPUs: `GPU 0: 30 %, 3000 MiB`."""
    parts = [
        f"{count} × {profile}" if profile else ngettext("%(n)s GPU", "%(n)s GPUs", count) % {"n": count}
        for profile, count in sorted(pod.cards.items())
    ]
    parts += [
        f"GPU {indices[card]}{_(': ')}{formats.format_percent(cores)} · {formats.format_memory(memory)}"
        for card, cores, memory in pod.shares
        if card in indices
    ]
    return _("; ").join(parts)


def format_ranges(indices: Sequence[int]) -> str:
    """Return indices of GPUs in short: `0–3, 6`."""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)
