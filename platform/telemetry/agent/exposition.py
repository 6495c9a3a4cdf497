"""The text of /metrics, rendered from the last snapshot: a scrape never calls NVML.

Names and units are those of `clusters.gpu.measures`. Devices, slices and processes have separate names, so
that a sum over one name never counts the same memory twice. Processes are only sent to the platform, because
their series would live no longer than a process.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from clusters.gpu.measures import MEASURES, GpuMeasure, Level, MeasureKind
from telemetry.agent.snapshot import NodeSnapshot

log = logging.getLogger(__name__)
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_DEVICE_LABELS: Final = ("node", "device_uuid", "index", "parent_uuid")
_SLICE_LABELS: Final = ("node", "device_uuid", "index", "namespace", "pod", "container")
_CONNECTIONS_MOST: Final = 16
_FRESH_S: Final = 1.0
_CONNECTION_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class SelfMetric:
    """A number about the agent. `by`: the label of its parts, "" for a single number."""

    name: str
    help: str
    read: Callable[[], Mapping[str, float] | float | None]
    by: str = ""


@dataclass(slots=True, eq=False)
class MetricsExposition:
    """Renders the last snapshot of one node, at most once a second."""

    node: str
    describe_devices: Callable[[], Mapping[str, Mapping[str, Any]]]
    index_of: Callable[[str], int | None]
    self_metrics: tuple[SelfMetric, ...] = ()
    _snapshot: NodeSnapshot | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _text: bytes = b""
    _fresh_until: float = 0.0

    def set_snapshot(self, snapshot: NodeSnapshot) -> None:
        """Render this snapshot from now on."""
        self._snapshot = snapshot

    def render(self) -> bytes:
        """Return the text for Prometheus."""
        with self._lock:
            if time.monotonic() >= self._fresh_until:
                registry = CollectorRegistry()
                registry.register(self)
                self._text, self._fresh_until = generate_latest(registry), time.monotonic() + _FRESH_S
            return self._text

    def collect(self) -> Iterable[Metric]:
        """Return the metric families for the client library."""
        snapshot = self._snapshot
        if snapshot is not None:
            yield from self._device_families(snapshot)
            yield from self._slice_families(snapshot)
            yield from self._state_families(snapshot)
        for metric in self.self_metrics:
            yield self._self_family(metric)

    def describe(self) -> Iterable[Metric]:
        """Return no family: which families exist depends on the snapshot."""
        return ()

    def _device_families(self, snapshot: NodeSnapshot) -> Iterable[Metric]:
        for measure in MEASURES:
            if Level.DEVICE not in measure.levels:
                continue
            family = _family(measure, Level.DEVICE, _DEVICE_LABELS)
            for device in snapshot.devices:
                if measure.name in device.values:
                    labels = [self.node, device.uuid, str(device.index), device.parent or ""]
                    family.add_metric(labels, device.values[measure.name] * measure.factor)
            if family.samples:
                yield family

    def _slice_families(self, snapshot: NodeSnapshot) -> Iterable[Metric]:
        for measure in MEASURES:
            if Level.SLICE not in measure.levels:
                continue
            family = _family(measure, Level.SLICE, _SLICE_LABELS)
            for each in snapshot.slices:
                if measure.name in each.values:
                    index = self.index_of(each.device)
                    place = [self.node, each.device, "" if index is None else str(index)]
                    labels = [*place, each.namespace, each.pod, each.container]
                    family.add_metric(labels, each.values[measure.name] * measure.factor)
            if family.samples:
                yield family

    def _state_families(self, snapshot: NodeSnapshot) -> Iterable[Metric]:
        rows = self.describe_devices()
        measured = {device.uuid for device in snapshot.devices}
        up = GaugeMetricFamily(
            "allotment_gpu_up",
            "1 if the last poll measured the device; otherwise the reason says why not.",
            labels=(*_DEVICE_LABELS[:3], "reason"),
        )
        whole = {uuid for uuid, row in rows.items() if row["parent"] is None} | snapshot.absent.keys()
        for uuid in sorted(whole | {device.uuid for device in snapshot.devices if device.parent is None}):
            reason = "" if uuid in measured else snapshot.absent.get(uuid, "pending")
            index = self.index_of(uuid)
            up.add_metric(
                [self.node, uuid, "" if index is None else str(index), reason], float(uuid in measured)
            )
        info = GaugeMetricFamily(
            "allotment_gpu_info",
            "Always 1: what the device is.",
            labels=(*_DEVICE_LABELS, "name", "pci_bus_id"),
        )
        for uuid, row in sorted(rows.items()):
            labels = [self.node, uuid, str(row["index"]), row["parent"] or "", row["name"], row["pci_bus_id"]]
            info.add_metric(labels, 1.0)
        yield from (up, info)

    def _self_family(self, metric: SelfMetric) -> Metric:
        labels = ("node", metric.by) if metric.by else ("node",)
        kind = CounterMetricFamily if metric.name.endswith("_total") else GaugeMetricFamily
        family = kind(metric.name.removesuffix("_total"), metric.help, labels=labels)
        value = metric.read()
        if isinstance(value, Mapping):
            for key, number in sorted(value.items()):
                family.add_metric([self.node, key], number)
        elif value is not None:
            family.add_metric([self.node], value)
        return family


def _family(
    measure: GpuMeasure, level: Level, labels: tuple[str, ...]
) -> CounterMetricFamily | GaugeMetricFamily:
    name = measure.prometheus_name(level)
    if measure.kind is MeasureKind.COUNTER:
        return CounterMetricFamily(name.removesuffix("_total"), measure.help, labels=labels)
    return GaugeMetricFamily(name, measure.help, labels=labels)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    render: Callable[[], bytes]
    is_alive: Callable[[], bool]
    slots: threading.Semaphore

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a new thread, unless too many connections are open."""
        if self.slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection and release its slot."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a connection that broke off, or a fault in the rendering."""
        log.warning("a scrape from %s failed", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _CONNECTION_S

    def do_GET(self) -> None:
        """Answer /metrics and /healthz."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(HTTPStatus.OK, self.server.render())
        elif path == "/healthz" and self.server.is_alive():
            self._answer(HTTPStatus.OK, b"ok\n")
        elif path == "/healthz":
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"no poll for a while, or no usable driver\n")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"see /metrics\n")

    def _answer(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log no line for each scrape."""


def serve_metrics(
    address: str, port: int, render: Callable[[], bytes], is_alive: Callable[[], bool]
) -> ThreadingHTTPServer:
    """Start to answer scrapes in threads; the port is in `server_port`. Raises: OSError."""
    server = _Server((address, port), _Handler)
    server.render, server.is_alive = render, is_alive
    server.slots = threading.Semaphore(_CONNECTIONS_MOST)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
