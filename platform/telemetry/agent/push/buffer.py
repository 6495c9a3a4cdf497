"""Snapshots that wait to be sent, compressed: those of the last two hours, within a limit of bytes."""

from __future__ import annotations

import json
import threading
import zlib
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from telemetry.agent.clock import SteadyClock
from telemetry.agent.snapshot import AgentEvent, NodeSnapshot

KEEP_S: Final = 7200.0
"""The age of the oldest measurements that the platform accepts, in seconds."""
_OVERHEAD: Final = 256  # bytes of an entry in addition to its text


@dataclass(frozen=True, slots=True)
class BufferedBatch:
    """One snapshot to send. `body`: its rows as compressed JSON, without times."""

    monotonic_s: float
    interval_ms: int
    events: tuple[AgentEvent, ...]
    body: bytes
    size: int

    def to_json(self, clock: SteadyClock) -> bytes:
        """Write the batch in the platform's format."""
        head = {
            "at_ms": clock.to_ms(self.monotonic_s),
            "interval_ms": self.interval_ms,
            "events": [
                {
                    "device": event.device,
                    "kind": event.kind,
                    "code": event.code,
                    "at_ms": clock.to_ms(event.monotonic_s),
                }
                for event in self.events
            ],
        }
        return _encode(head)[:-1] + b"," + zlib.decompress(self.body)[1:]


def make_batch(snapshot: NodeSnapshot, interval_s: float) -> BufferedBatch:
    """Make a batch of a snapshot."""
    rows = {
        "devices": [
            {"uuid": each.uuid, "parent": each.parent, "values": each.values} for each in snapshot.devices
        ],
        "slices": [
            {
                "device": each.device,
                "pod_uid": each.pod_uid,
                "container": each.container,
                "values": each.values,
            }
            for each in snapshot.slices
        ],
        "processes": [
            {
                "device": each.device,
                "pid": each.pid,
                "name": each.name,
                "pod_uid": each.pod_uid,
                "container_id": each.container_id,
                "values": each.values,
            }
            for each in snapshot.processes
        ],
    }
    text = _encode(rows)
    return BufferedBatch(
        snapshot.monotonic_s, round(interval_s * 1000), snapshot.events, zlib.compress(text, 1), len(text)
    )


class Buffer:
    """A queue of batches between the measuring thread and the sending thread.

    `dropped` counts batches that were not sent, by reason: `old`, `full`, `refused`.
    """

    def __init__(self, most_bytes: int) -> None:
        self.dropped: Counter[str] = Counter()
        self._most_bytes = most_bytes
        self._bytes = 0
        self._batches: deque[BufferedBatch] = deque()
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def bytes(self) -> int:
        """The approximate memory of the batches, in bytes."""
        return self._bytes

    def put(self, batch: BufferedBatch) -> None:
        """Add the newest batch; drop the oldest ones if there is no room."""
        with self._changed:
            self._batches.append(batch)
            self._bytes += _cost(batch)
            while self._batches[0].monotonic_s < batch.monotonic_s - KEEP_S:
                self._drop("old")
            while self._bytes > self._most_bytes and len(self._batches) > 1:
                self._drop("full")
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Wait until there is a batch; return whether there is one."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._batches), timeout_s)

    def peek(self, most_bytes: int) -> Sequence[BufferedBatch]:
        """Return the oldest batches that fit into so many bytes of JSON, at least one if there is any."""
        with self._changed:
            found: list[BufferedBatch] = []
            size = 0
            for batch in self._batches:
                size += batch.size + _OVERHEAD
                if found and size > most_bytes:
                    break
                found.append(batch)
            return found

    def remove(self, batches: Sequence[BufferedBatch], reason: str = "") -> None:
        """Remove batches that were sent, or were refused for a reason."""
        with self._changed:
            for batch in batches:
                # The oldest may have been dropped meanwhile.
                if self._batches and self._batches[0] is batch:
                    self._batches.popleft()
                    self._bytes -= _cost(batch)
                    if reason:
                        self.dropped[reason] += 1

    def _drop(self, reason: str) -> None:
        self._bytes -= _cost(self._batches.popleft())
        self.dropped[reason] += 1


def _cost(batch: BufferedBatch) -> int:
    return len(batch.body) + _OVERHEAD * (1 + len(batch.events))


def _encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
