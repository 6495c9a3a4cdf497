"""The annotations through which HAMi's device plugin and a scheduler communicate.

Tested against HAMi 2.6 to 2.10. Its own documents describe the older format only, so both are read:
comma-separated values up to 2.7, JSON from 2.8 on. In JSON a zero and a false are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

# Annotations of a node.
REGISTER: Final = "hami.io/node-nvidia-register"
LOCK: Final = "hami.io/mutex.lock"
CORDONED_CARDS: Final = "hami.io/device-cordon"
# Annotations of a pod; the first is a label as well, by which HAMi's monitor finds the pod.
NODE: Final = "hami.io/vgpu-node"
TIME: Final = "hami.io/vgpu-time"
TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"
ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
PHASE: Final = "hami.io/bind-phase"
BIND_TIME: Final = "hami.io/bind-time"

PHASE_ALLOCATING: Final = "allocating"
PHASE_SUCCESS: Final = "success"
PHASE_FAILED: Final = "failed"

LOCK_EXPIRES: Final = timedelta(minutes=5)
_VENDOR: Final = "NVIDIA"
_CSV_FIELDS: Final = (7, 9)
_LONGEST: Final = 64 * 1024  # characters; sixteen cards in each of forty containers
_MOST: Final = 2**31 - 1  # MiB or percent points, in HAMi's integer type


class HamiFormatError(ValueError):
    """An annotation in a format that none of the known versions writes."""


@dataclass(frozen=True, slots=True)
class RegisteredCard:
    """A card as the device plugin reports it.

    `slots`: pods that may share it. `memory_mib`: after HAMi's own scaling, so not always the physical
    memory. `cores`: percent points, 100 unless scaled. `mode`: hami-core | mig | mps.
    """

    uuid: str
    index: int
    slots: int
    memory_mib: int
    cores: int
    model: str
    numa: int
    mode: str
    healthy: bool


@dataclass(frozen=True, slots=True)
class CardShare:
    """The part of one card that one container holds: memory in MiB, cores in percent points."""

    uuid: str
    memory_mib: int
    cores: int


@dataclass(frozen=True, slots=True)
class NodeLock:
    """The lock of a node: the plugin allocates cards to that pod and no other."""

    taken_at: datetime
    namespace: str = ""
    pod: str = ""

    def to_annotation(self) -> str:
        """Return the annotation's value."""
        return f"{self.taken_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ},{self.namespace},{self.pod}"

    def held_by(self, namespace: str, pod: str) -> bool:
        """Return whether this pod holds the lock."""
        return (self.namespace, self.pod) == (namespace, pod)

    def is_expired(self, now: datetime) -> bool:
        """Return whether HAMi itself would take the lock over."""
        return now - self.taken_at > LOCK_EXPIRES


def parse_register(text: str) -> list[RegisteredCard]:
    """Read a node's cards, from either format. Raises: HamiFormatError."""
    text = text.strip()
    try:
        return _register_json(json.loads(text)) if text.startswith("[") else _register_csv(text)
    except (ValueError, TypeError, AttributeError) as error:
        raise HamiFormatError(f"{REGISTER} can't be read: {error}") from error


def _register_json(rows: Iterable[Mapping[str, Any] | None]) -> list[RegisteredCard]:
    return [
        RegisteredCard(
            uuid=str(row.get("id", "")),
            index=int(row.get("index", 0)),
            slots=int(row.get("count", 0)),
            memory_mib=int(row.get("devmem", 0)),
            cores=int(row.get("devcore", 0)),
            model=str(row.get("type", "")),
            numa=int(row.get("numa", 0)),
            mode=str(row.get("mode") or "hami-core"),
            healthy=row.get("health", False) is True,
        )
        for row in rows
        if row
    ]


def _register_csv(text: str) -> list[RegisteredCard]:
    cards = []
    for item in text.split(":"):
        if "," not in item:
            continue  # the text after the last colon
        fields = item.split(",")
        if len(fields) not in _CSV_FIELDS:
            raise ValueError(f"a GPU has {len(fields)} fields, not 7 or 9")
        uuid, slots, memory, cores, model, numa, healthy, *rest = fields
        index, mode = rest or ("0", "hami-core")
        cards.append(
            RegisteredCard(
                uuid=uuid,
                index=int(index),
                slots=int(slots),
                memory_mib=int(memory),
                cores=int(cores),
                model=model,
                numa=int(numa),
                mode=mode,
                healthy=healthy == "true",
            )
        )
    return cards


def encode_shares(containers: Sequence[Sequence[CardShare]]) -> str:
    """Write what each container of a pod holds, in the pod's order, init containers first."""
    return "".join(
        "".join(f"{share.uuid},{_VENDOR},{share.memory_mib},{share.cores}:" for share in shares) + ";"
        for shares in containers
    )


def decode_shares(text: str) -> list[list[CardShare]]:
    """Read what each container holds; a missing last colon or semicolon is accepted, as by HAMi.

    Raises: HamiFormatError.
    """
    if len(text) > _LONGEST:
        raise HamiFormatError(f"{ALLOCATED} has {len(text)} characters, more than {_LONGEST}")
    containers = text.removesuffix(";").split(";") if text else []
    return [[_share(item) for item in container.split(":") if item] for container in containers]


def _share(item: str) -> CardShare:
    try:
        uuid, _, memory, cores = item.split(",")[:4]
        share = CardShare(uuid, int(memory), int(cores))
    except ValueError as error:
        raise HamiFormatError(f"{item[:100]!r} is not a share of a GPU: {str(error)[:100]}") from error
    if not (uuid and 0 <= share.memory_mib <= _MOST and 0 <= share.cores <= _MOST):
        raise HamiFormatError(f"{item[:100]!r} is not a share of a GPU: an amount is out of range")
    return share


def parse_lock(text: str) -> NodeLock:
    """Read a node's lock; old versions write the time alone. Raises: HamiFormatError."""
    stamp, namespace, pod = (*text.split(","), "", "")[:3]
    try:
        taken_at = datetime.fromisoformat(stamp)
    except ValueError as error:
        raise HamiFormatError(f"{LOCK} is {text!r}, which begins with no time") from error
    return NodeLock(taken_at if taken_at.tzinfo else taken_at.replace(tzinfo=UTC), namespace, pod)
