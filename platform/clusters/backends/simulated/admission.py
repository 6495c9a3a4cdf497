"""The checks of a kubelet before it starts a pod.

The API server accepts any binding; only the kubelet of the node compares the pod with the free resources. So
a pod that does not fit is created, and then fails there. Reasons and messages are the kubelet's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from clusters.backends.base import DeviceGrant, TaskSpec
from clusters.gpu.nvidia import CARD_RESOURCE
from clusters.models import GpuMode, SimulatedDevice

OUT_OF_CPU = "OutOfcpu"
OUT_OF_MEMORY = "OutOfmemory"
OUT_OF_GPU = f"OutOf{CARD_RESOURCE}"
UNEXPECTED = "UnexpectedAdmissionError"
_FULL_CARD = 100  # percent points of compute


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason for which the kubelet fails a pod."""

    reason: str
    message: str


@dataclass(slots=True)
class CardUse:
    """One card with the parts that running pods hold: cores in percent points, memory in MiB."""

    device: SimulatedDevice
    cores: int = 0
    memory_mib: int = 0
    holders: int = 0


@dataclass(slots=True)
class Kubelet:
    """One node as its kubelet sees it; `admit_pod` reserves the resources of an admitted pod."""

    name: str
    ready: bool
    cpu_millicores: int
    memory_mib: int
    cards: dict[str, CardUse] = field(default_factory=dict)
    cpu_used: int = 0
    memory_used: int = 0

    def reserve_resources(self, cpu: int, memory: int, grants: Iterable[DeviceGrant]) -> None:
        """Count a pod that holds its resources here, even if they were not free."""
        self.cpu_used += cpu
        self.memory_used += memory
        for grant in grants:
            if (card := self.cards.get(grant.uuid)) is not None:
                card.cores += grant.cores
                card.memory_mib += grant.memory_mib
                card.holders += 1

    def admit_pod(self, spec: TaskSpec) -> Rejection | None:
        """Check a pod; reserve its resources and return None, or return why it fails."""
        rejection = self._readiness() or self._devices(spec.devices) or self._node(spec)
        if rejection is None:
            self.reserve_resources(spec.cpu_millicores, spec.memory_mib, spec.devices)
        return rejection

    def _readiness(self) -> Rejection | None:
        return None if self.ready else Rejection(UNEXPECTED, f"Node {self.name} is not ready")

    def _node(self, spec: TaskSpec) -> Rejection | None:
        if self.cpu_used + spec.cpu_millicores > self.cpu_millicores:
            return _short(OUT_OF_CPU, "cpu", spec.cpu_millicores, self.cpu_used, self.cpu_millicores)
        if self.memory_used + spec.memory_mib > self.memory_mib:
            return _short(OUT_OF_MEMORY, "memory", spec.memory_mib, self.memory_used, self.memory_mib)
        return None

    def _devices(self, grants: tuple[DeviceGrant, ...]) -> Rejection | None:
        if len({grant.uuid for grant in grants}) < len(grants):
            return Rejection(UNEXPECTED, "Allocate failed: the same card was asked for twice")
        for grant in grants:
            card = self.cards.get(grant.uuid)
            if card is None:
                return Rejection(UNEXPECTED, f"Allocate failed: no device {grant.uuid} on node {self.name}")
            if not card.device.healthy:
                return Rejection(UNEXPECTED, f"Allocate failed: device {grant.uuid} is unhealthy")
            if (rejection := self._card(card, grant, len(grants))) is not None:
                return rejection
        return None

    def _card(self, card: CardUse, grant: DeviceGrant, asked: int) -> Rejection | None:
        if card.device.mode == GpuMode.WHOLE:
            if not card.holders:
                return None
            used = sum(1 for use in self.cards.values() if use.holders)
            return _short(OUT_OF_GPU, CARD_RESOURCE, asked, used, len(self.cards))
        if card.cores + grant.cores > _FULL_CARD:
            return _short(OUT_OF_GPU, f"gpu cores of {grant.uuid}", grant.cores, card.cores, _FULL_CARD)
        if card.memory_mib + grant.memory_mib > card.device.memory_mib:
            return _short(
                OUT_OF_GPU,
                f"gpu memory of {grant.uuid}",
                grant.memory_mib,
                card.memory_mib,
                card.device.memory_mib,
            )
        return None


def _short(reason: str, what: str, requested: int, used: int, capacity: int) -> Rejection:
    numbers = f"requested: {requested}, used: {used}, capacity: {capacity}"
    return Rejection(reason, f"Node didn't have enough resource: {what}, {numbers}")
