"""The thread that sends batches to the platform, in order, until each was accepted or refused."""

from __future__ import annotations

import gzip
import json
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from telemetry.agent.clock import SteadyClock
from telemetry.agent.push.buffer import Buffer, BufferedBatch
from telemetry.agent.push.keys import KeySource, NoKey
from telemetry.agent.push.requests import Platform, PlatformAnswer, Unreachable

log = logging.getLogger(__name__)
PATH: Final = "/api/v1/agent/samples"
INTERVAL_S: Final = (5.0, 300.0)
"""The bounds of the interval that the platform may request, in seconds."""
_MOST_BYTES: Final = 1 << 20
"""The most bytes of JSON of the batches in one request; the platform accepts 4 MiB."""
_LEAST_BYTES: Final = 1 << 12
_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_OK, _UNAUTHORIZED, _TOO_LARGE = (200, 201, 202), (401, 403), 413
_WRONG: Final = (400, 422)


@dataclass(slots=True)
class Pusher:
    """Sends the batches of the buffer. `set_interval` gets the interval of polls from the platform (s).

    `results` counts requests by status or `unreachable`; `sent_at` is the monotonic time of the last success.
    """

    platform: Platform
    keys: KeySource
    node: str
    buffer: Buffer
    clock: SteadyClock
    set_interval: Callable[[float], None]
    pause: Callable[[float], None]
    results: Counter[str] = field(default_factory=Counter)
    sent_at: float | None = None
    _inventory: Mapping[str, Any] | None = None
    _sent_inventory: Mapping[str, Any] | None = None
    """The inventory in the last request."""
    _known_inventory: Mapping[str, Any] | None = None
    """The inventory that the platform has accepted."""
    _unsupported: Mapping[str, list[str]] = field(default_factory=dict)
    _sent_unsupported: Mapping[str, list[str]] | None = None
    _refused_unsupported: Mapping[str, list[str]] | None = None
    _most_bytes: int = _MOST_BYTES
    _pause_s: float = _PAUSE_S
    _asked_pause_s: float = 0.0
    """The pause that the platform requested with its last answer."""

    def note_inventory(self, inventory: Mapping[str, Any]) -> None:
        """Send this inventory with the next request."""
        self._inventory = inventory

    def note_unsupported(self, unsupported: Mapping[str, list[str]]) -> None:
        """Send these measures as not supported, by device, from now on."""
        if unsupported != self._unsupported:
            self._unsupported = unsupported

    def run(self) -> None:
        """Send batches until the process ends."""
        while True:
            self.buffer.wait(_LONGEST_PAUSE_S)
            try:
                is_sent = self.push_once()
            except Exception:
                # After any error the node is still measured, and the next request may succeed.
                log.exception("a request failed for a reason that was not foreseen")
                self.results["failed"] += 1
                is_sent = False
            if not is_sent:
                # Jitter: agents of many nodes that lost the same platform must not all retry at the same
                # moment.
                self.pause(max(self._pause_s * random.uniform(0.5, 1.0), self._asked_pause_s))
                self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def push_once(self) -> bool:
        """Send the oldest batches; return whether to continue at once."""
        batches = self.buffer.peek(self._most_bytes)
        if not batches:
            return True
        try:
            key = self.keys.read_key()
            answer = self.platform.post(PATH, self._body(batches), token=key, gzipped=True)
        except Unreachable as error:
            return self._fail("unreachable", str(error))
        except NoKey as error:
            return self._fail("no-key", str(error))
        self.results[str(answer.status)] += 1
        return self._take(answer, batches)

    def _take(self, answer: PlatformAnswer, batches: Sequence[BufferedBatch]) -> bool:
        if answer.status in _OK:
            self._succeed(answer, batches)
            return True
        if answer.status in _UNAUTHORIZED:
            self.keys.discard_key()
            log.warning("the platform refused the node's key: %s", answer.text)
            return False
        if answer.status == _TOO_LARGE and len(batches) > 1:
            self._most_bytes = max(_LEAST_BYTES, sum(batch.size for batch in batches) // 2)
            return True
        if answer.status in _WRONG and self._leave_out(answer):
            return True
        if answer.status in _WRONG and len(batches) > 1:
            self._most_bytes = 1  # one batch at a time, so that one invalid batch does not block the others
            return True
        if answer.status in (*_WRONG, _TOO_LARGE):
            log.error("the platform does not take a batch: %s", answer.text)
            self.buffer.remove(batches, "refused")
            self._known_inventory, self._refused_unsupported = None, None
            return True
        self._asked_pause_s = min(max(answer.retry_after_s or 0.0, 0.0), _LONGEST_PAUSE_S)
        log.warning("the platform answered %s", answer.text)
        return False

    def _leave_out(self, answer: PlatformAnswer) -> bool:
        """Omit one part that accompanies the batches from now on; return whether there was one to omit."""
        if self._sent_inventory is not self._known_inventory:
            log.error("the inventory is left out of the next request: %s", answer.text)
            self._known_inventory = self._sent_inventory
            return True
        if self._sent_unsupported is not self._refused_unsupported:
            log.error("what is not supported is left out of the next request: %s", answer.text)
            self._refused_unsupported = self._sent_unsupported
            return True
        return False

    def _succeed(self, answer: PlatformAnswer, batches: Sequence[BufferedBatch]) -> None:
        self.buffer.remove(batches)
        self.sent_at = self.clock.monotonic()
        self._pause_s, self._asked_pause_s = _PAUSE_S, 0.0
        self._most_bytes = min(2 * max(self._most_bytes, _LEAST_BYTES), _MOST_BYTES)
        self._known_inventory = None if answer.body.get("unknown_devices") else self._sent_inventory
        interval_s = answer.body.get("interval_s")
        if isinstance(interval_s, int | float) and interval_s == interval_s:
            self.set_interval(min(max(float(interval_s), INTERVAL_S[0]), INTERVAL_S[1]))

    def _fail(self, result: str, text: str) -> bool:
        self.results[result] += 1
        log.warning("%s; %d batches wait", text, len(self.buffer))
        return False

    def _body(self, batches: Sequence[BufferedBatch]) -> bytes:
        self._sent_inventory = self._inventory
        is_known = self._sent_inventory is self._known_inventory
        self._sent_unsupported = self._unsupported
        is_refused = self._sent_unsupported is self._refused_unsupported
        head = {
            "version": 1,
            "node": self.node,
            "sent_at_ms": self.clock.to_ms(self.clock.monotonic()),
            "inventory": None if is_known else self._sent_inventory,
            "unsupported": {} if is_refused else self._sent_unsupported,
        }
        rows = b",".join(batch.to_json(self.clock) for batch in batches)
        text = json.dumps(head, separators=(",", ":")).encode()[:-1] + b',"batches":[' + rows + b"]}"
        return gzip.compress(text, 5)
