"""The telemetry of one node: polls in one thread, requests to the platform in another."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from telemetry.agent.clock import SteadyClock
from telemetry.agent.exposition import MetricsExposition, SelfMetric
from telemetry.agent.push.buffer import Buffer, make_batch
from telemetry.agent.push.pusher import Pusher
from telemetry.agent.sampling import Sampler

log = logging.getLogger(__name__)
_WAIT_SHARE: Final = 0.8
"""The share of an interval for which a poll may wait; a later answer is used by the next poll."""
_SILENT_S: Final = 120.0
_SILENT_POLLS: Final = 5
_UNUSABLE_S: Final = 300.0


@dataclass(slots=True)
class Telemetry:
    """Measures every `interval_s` seconds; `pusher` is None if nothing is sent."""

    sampler: Sampler
    buffer: Buffer
    exposition: MetricsExposition
    interval_s: float
    pusher: Pusher | None = None
    polled_at: float | None = None
    poll_s: float = 0.0
    failures: int = 0
    _started: float = field(default_factory=time.monotonic)
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Start the threads."""
        threading.Thread(target=self.run, name="poll", daemon=True).start()
        if self.pusher is not None:
            threading.Thread(target=self.pusher.run, name="push", daemon=True).start()

    def stop(self) -> None:
        """Kill the process that calls NVML; the threads end with this one."""
        self._stop.set()
        self.sampler.nvml.close()

    def is_alive(self) -> bool:
        """Return whether the agent works, or a restart of its container would not help.

        A restart helps if polls have stopped, and if the library is missing or not the driver's: the
        container runtime mounts the library when it starts a container.
        """
        now, unusable_since = time.monotonic(), self.sampler.unusable_since
        if unusable_since is not None and now - unusable_since > _UNUSABLE_S:
            return False
        since = self._started if self.polled_at is None else self.polled_at
        return now - since < max(_SILENT_S, _SILENT_POLLS * self.interval_s)

    def set_interval(self, interval_s: float) -> None:
        """Poll every so many seconds from the next poll on."""
        if interval_s != self.interval_s:
            log.info("polls every %g s from now on", interval_s)
            self.interval_s = interval_s

    def run(self) -> None:
        """Poll until the process ends, at fixed times; a late poll does not delay the next one."""
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            try:
                self.poll_once()
            except Exception:
                # An error in one poll must not end the others.
                log.exception("a poll failed for a reason that was not foreseen")
                self.failures += 1
            due = max(due + self.interval_s, time.monotonic() - self.interval_s)

    def poll_once(self) -> None:
        """Measure once, expose the snapshot and queue it for sending."""
        begun, interval_s = time.monotonic(), self.interval_s
        snapshot = self.sampler.sample(interval_s * _WAIT_SHARE)
        self.exposition.set_snapshot(snapshot)
        if self.pusher is not None:
            if snapshot.inventory is not None:
                self.pusher.note_inventory(snapshot.inventory)
            self.pusher.note_unsupported(snapshot.unsupported)
            # Even without measurements: the platform then knows that the agent runs.
            self.buffer.put(make_batch(snapshot, interval_s))
        self.polled_at, self.poll_s = time.monotonic(), time.monotonic() - begun

    def self_metrics(self, clock: SteadyClock) -> tuple[SelfMetric, ...]:
        """Return the agent's own metrics."""
        sampler, buffer, pusher = self.sampler, self.buffer, self.pusher

        def read_time(monotonic_s: float | None) -> float | None:
            return None if monotonic_s is None else clock.to_ms(monotonic_s) / 1000

        def read_pushes() -> Mapping[str, float]:
            return dict(pusher.results) if pusher is not None else {}

        name = "allotment_agent_"
        return (
            SelfMetric(f"{name}poll_seconds", "Duration of the last poll.", lambda: self.poll_s),
            SelfMetric(
                f"{name}last_poll_timestamp_seconds",
                "Time of the last poll.",
                lambda: read_time(self.polled_at),
            ),
            SelfMetric(f"{name}polls_total", "Polls of NVML.", lambda: dict(sampler.states), "state"),
            SelfMetric(f"{name}poll_failures_total", "Polls that failed.", lambda: float(self.failures)),
            SelfMetric(
                f"{name}nvml_errors_total", "NVML calls that failed.", lambda: dict(sampler.errors), "call"
            ),
            SelfMetric(
                f"{name}nvml_starts_total",
                "Starts of the process that calls NVML.",
                lambda: float(sampler.nvml.starts),
            ),
            SelfMetric(
                f"{name}nvml_abandoned",
                "Killed NVML processes that have not ended.",
                lambda: float(sampler.nvml.abandoned),
            ),
            SelfMetric(
                f"{name}region_problems_total",
                "HAMi files that could not be read.",
                lambda: dict(sampler.slices.problems),
                "reason",
            ),
            SelfMetric(f"{name}buffer_batches", "Polls that wait to be sent.", lambda: float(len(buffer))),
            SelfMetric(f"{name}buffer_bytes", "Memory of the polls that wait.", lambda: float(buffer.bytes)),
            SelfMetric(
                f"{name}dropped_batches_total",
                "Polls that were dropped and not sent.",
                lambda: dict(buffer.dropped),
                "reason",
            ),
            SelfMetric(f"{name}pushes_total", "Requests to the platform.", read_pushes, "result"),
            SelfMetric(
                f"{name}last_push_timestamp_seconds",
                "Time of the last poll batch that the platform took.",
                lambda: read_time(pusher.sent_at) if pusher is not None else None,
            ),
        )
