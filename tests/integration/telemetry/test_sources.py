"""Sources over real HTTP: their stored values, their failures, and that one stops no other."""

from __future__ import annotations

import gzip
import json
import socket
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest

from clusters.gpu.batches import MeasureBatch
from clusters.gpu.measures import Level
from clusters.gpu.report import read_report
from clusters.models import Node
from foundation.core import clock
from foundation.core.sealed_text import seal_text
from scheduling.models import Allocation, Task
from scheduling.models.job import TaskState
from telemetry.models import (
    GpuEvent,
    NodeAgent,
    Reading,
    Scope,
    SourceKind,
    SourceNode,
    SourceStatus,
    TelemetrySource,
)
from telemetry.services.receive import report_store
from telemetry.sources import fetch
from telemetry.sources.collect import _agent_coverage, collect_sources
from telemetry.sources.overview import NodeState, SourceState, describe_agents, describe_sources
from telemetry.store.packing import unpack_values
from telemetry.store.times import to_ms
from tests.builders import expositions as exp
from tests.fixtures.http_receiver import Receiver, run_receiver
from tests.integration.telemetry.conftest import START, Bench


class Sources:
    """Sources of the cluster of a bench, each with a server of its own."""

    def __init__(self, bench: Bench, stack: ExitStack) -> None:
        self.bench, self.stack = bench, stack

    def add(
        self, kind: SourceKind = SourceKind.DCGM, *, name: str = "", body: str = "", **fields: Any
    ) -> tuple[TelemetrySource, Receiver]:
        receiver = self.stack.enter_context(run_receiver())
        receiver.body, receiver.headers = body.encode(), {"Content-Type": "text/plain; version=0.0.4"}
        fields.setdefault("address", f"{receiver.url}/metrics")
        made = TelemetrySource.unscoped.create(
            cluster=self.bench.world.cluster, kind=kind, name=name or kind.value, **fields
        )
        return made, receiver

    def gpu(self, index: int = 0, node: int = 0) -> str:
        return self.bench.device(index, node).uuid

    def later(self, seconds: int = 15) -> None:
        self.bench.clock.shift(timedelta(seconds=seconds))


@pytest.fixture
def sources(bench: Bench, settings: Any) -> Iterator[Sources]:
    settings.ALLOTMENT_OUTGOING_NETWORKS = ["127.0.0.0/8"]
    with ExitStack() as stack:
        yield Sources(bench, stack)


def status(source: TelemetrySource) -> SourceStatus:
    return SourceStatus.unscoped.get(source=source)


def start_pods() -> None:
    for hold in Allocation.unscoped.all():
        Allocation.unscoped.filter(pk=hold.pk).update(pod_uid=f"uid-{hold.pod_name}", ensured_at=clock.now())
    Task.unscoped.update(state=TaskState.RUNNING, started_at=START - timedelta(seconds=90))


def test_what_an_exporter_says_is_stored_under_the_gpu_and_its_state_is_noted(sources: Sources) -> None:
    text = exp.text(*exp.dcgm(exp.DCGM_DEFAULT, gpu=sources.gpu()), *exp.dcgm({"DEV_GPU_UTIL": 1}))
    source, receiver = sources.add(body=text)
    assert collect_sources() == 1
    row = Reading.unscoped.get(channel__scope=Scope.CARD)
    assert (row.cores_used, row.memory_used_mib, row.temperature_c, row.power_w) == (
        87.0,
        20480,
        54.0,
        301.25,
    )
    assert unpack_values(row.values)["energy_j"] == pytest.approx(123456.789)
    assert receiver.requests[0].path == "/metrics"
    noted = status(source)
    assert (noted.problem, noted.answered_at, noted.failed_since) == ("", clock.now(), None)
    assert (noted.values, noted.refused, noted.unknown) == (21 + 1, 0, [exp.GPU_0])
    on_node = SourceNode.unscoped.get(source=source)
    assert (on_node.node, on_node.devices) == ("node-1", 1)
    assert "device.temperature_c" in on_node.said["dcgm"]


def test_slices_belong_to_the_pods_of_the_platform_and_silent_ones_are_idle(sources: Sources) -> None:
    start_pods()
    hold = Allocation.unscoped.get(task__job=sources.bench.sliced, task__index=0)
    card = {"device_uuid": sources.gpu(), "node": "node-1"}
    part = {"namespace": hold.namespace, "pod": hold.pod_name, "container": "main", **card}
    text = exp.text(
        exp.line("hami_host_gpu_utilization_ratio", 63, **card),
        exp.line("hami_vgpu_memory_used_bytes", 3 * 2**30, **part),
        exp.line("hami_vgpu_memory_used_bytes", 2**30, **{**part, "namespace": "elsewhere"}),
    )
    sources.add(SourceKind.HAMI_MONITOR, body=text)
    collect_sources()
    rows = Reading.unscoped.filter(channel__scope=Scope.SLICE, channel__job_id=sources.bench.sliced.pk)
    found = sorted((row.memory_used_mib, row.cores_used, row.values is None) for row in rows)
    assert found == [(0, 0.0, False), (3072, None, True)]
    idle = rows.get(memory_used_mib=0)
    assert unpack_values(idle.values) == {"idle_s": 90.0}


def test_a_measure_of_two_sources_is_stored_once_from_the_better_one(sources: Sources) -> None:
    card = {"device_uuid": sources.gpu()}
    monitor = exp.text(
        exp.line("hami_host_gpu_utilization_ratio", 11, **card),
        exp.line("hami_host_gpu_memory_used_bytes", 2**30, **card),
    )
    _, dcgm = sources.add(body=exp.text(*exp.dcgm({"DEV_GPU_UTIL": 50}, gpu=sources.gpu())))
    sources.add(SourceKind.HAMI_MONITOR, body=monitor)

    def newest() -> tuple[float | None, int | None]:
        row = Reading.unscoped.filter(channel__scope=Scope.CARD).latest("at_ms")
        return row.cores_used, row.memory_used_mib

    collect_sources()
    assert newest() == (50.0, 1024)
    dcgm.status = 500
    sources.later()
    collect_sources()
    # One missed scrape does not mix two ways of measuring.
    assert Reading.unscoped.filter(channel__scope=Scope.CARD).count() == 1
    sources.later(45)
    collect_sources()
    assert newest() == (11.0, 1024)
    assert Reading.unscoped.filter(channel__scope=Scope.CARD).count() == 2


def test_an_xid_error_becomes_one_event(sources: Sources) -> None:
    def text(code: int) -> bytes:
        return exp.text(*exp.dcgm({"DEV_XID_ERRORS": code, "DEV_GPU_TEMP": 50}, gpu=sources.gpu())).encode()

    _, receiver = sources.add()
    for code in (0, 79, 79):
        receiver.body = text(code)
        collect_sources()
        sources.later()
    assert list(GpuEvent.unscoped.values_list("device_uuid", "kind", "code")) == [(sources.gpu(), "xid", 79)]


def test_a_source_is_asked_at_its_own_pace_and_by_one_worker(sources: Sources) -> None:
    _, receiver = sources.add(body=exp.text(*exp.dcgm({"DEV_GPU_UTIL": 1}, gpu=sources.gpu())), every_s=30)
    for _ in range(2):
        collect_sources()
    assert len(receiver.requests) == 1
    sources.later()
    collect_sources()
    assert len(receiver.requests) == 1
    sources.later()
    collect_sources()
    assert len(receiver.requests) == 2


def test_a_disabled_source_is_not_asked(sources: Sources) -> None:
    _, receiver = sources.add(enabled=False)
    assert (collect_sources(), receiver.requests) == (0, [])


def _redirect(receiver: Receiver) -> None:
    receiver.status, receiver.headers = 302, {"Location": "http://169.254.169.254/latest/meta-data"}


def _error(receiver: Receiver) -> None:
    receiver.status, receiver.body = 500, b"secret words of an internal service"


def _denied(receiver: Receiver) -> None:
    receiver.status = 401


def _page(receiver: Receiver) -> None:
    receiver.headers, receiver.body = {"Content-Type": "text/html"}, b"<html>"


def _empty(receiver: Receiver) -> None:
    receiver.body = b"go_goroutines 7\n"


def _bomb(receiver: Receiver) -> None:
    packer = zlib.compressobj(9, wbits=31)
    block = b"x" * 2**20
    receiver.body = b"".join(packer.compress(block) for _ in range(33)) + packer.flush()
    receiver.headers["Content-Encoding"] = "gzip"


def _damaged(receiver: Receiver) -> None:
    receiver.body = gzip.compress(b"x" * 1000)[:-9]
    receiver.headers["Content-Encoding"] = "gzip"


def _huge(receiver: Receiver) -> None:
    receiver.body = b"x" * (fetch.EXPOSITION_MAX + 1)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (_redirect, "redirected"),
        (_error, "status"),
        (_denied, "denied"),
        (_page, "not-metrics"),
        (_empty, "no-known-metric"),
        (_bomb, "too-large"),
        (_damaged, "not-metrics"),
        (_huge, "too-large"),
    ],
)
def test_a_source_that_fails_says_why_and_stops_no_other(sources: Sources, spoil: Any, problem: str) -> None:
    bad, receiver = sources.add(name="bad")
    spoil(receiver)
    good, _ = sources.add(name="good", body=exp.text(*exp.dcgm({"DEV_GPU_UTIL": 1}, gpu=sources.gpu())))
    assert collect_sources() == 1
    noted = status(bad)
    assert (noted.problem, noted.answered_at, noted.failed_since) == (problem, None, clock.now())
    assert "secret words" not in noted.detail
    assert len(receiver.requests) == 1
    assert status(good).failed_since is None
    assert Reading.unscoped.filter(channel__scope=Scope.CARD).count() == 1
    began = clock.now()
    sources.later()
    collect_sources()
    assert status(bad).failed_since == began


def test_gzip_is_unpacked(sources: Sources) -> None:
    text = exp.text(*exp.dcgm({"DEV_GPU_UTIL": 33}, gpu=sources.gpu()))
    _, receiver = sources.add()
    receiver.body, receiver.headers["Content-Encoding"] = gzip.compress(text.encode()), "gzip"
    assert collect_sources() == 1
    assert receiver.requests[0].headers["accept-encoding"] == "gzip"


def test_an_address_that_is_not_allowed_is_never_connected_to(sources: Sources, settings: Any) -> None:
    settings.ALLOTMENT_OUTGOING_NETWORKS = []
    source, receiver = sources.add()
    collect_sources()
    assert (status(source).problem, receiver.requests) == ("address-not-allowed", [])


def test_every_address_of_a_headless_service_is_scraped(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = exp.text(*exp.dcgm({"DEV_GPU_UTIL": 33}, gpu=sources.gpu()))
    source, receiver = sources.add(body=text)
    port = int(receiver.url.rpartition(":")[2])
    TelemetrySource.unscoped.filter(pk=source.pk).update(address=f"http://exporters.test:{port}/metrics")
    real = socket.getaddrinfo

    def find(host: str, *arguments: Any, **named: Any) -> list[Any]:
        if host != "exporters.test":
            return real(host, *arguments, **named)
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in ("127.0.0.1", "127.0.0.2")
        ]

    monkeypatch.setattr(socket, "getaddrinfo", find)
    collect_sources()
    noted = status(source)
    assert (noted.endpoints, noted.endpoints_failed, noted.problem) == (2, 1, "unreachable")
    assert (noted.failed_since, noted.values) == (None, 1)


def test_the_name_of_each_node_with_gpus_is_put_into_the_address(sources: Sources) -> None:
    text = exp.text(*exp.dcgm({"DEV_GPU_UTIL": 33}, gpu=sources.gpu()))
    source, receiver = sources.add(body=text)
    TelemetrySource.unscoped.filter(pk=source.pk).update(address=f"{receiver.url}/{{node}}/metrics")
    Node.unscoped.filter(name="node-2").update(present=False)
    collect_sources()
    assert [request.path for request in receiver.requests] == ["/node-1/metrics"]


@pytest.mark.parametrize(
    ("user", "expected"), [("", "Bearer word"), ("me", "Basic bWU6d29yZA==")], ids=["token", "password"]
)
def test_a_credential_is_shown_to_the_source(sources: Sources, user: str, expected: str) -> None:
    _, receiver = sources.add(secret=seal_text("word"), user=user)
    collect_sources()
    assert receiver.requests[0].headers["authorization"] == expected


def test_a_credential_that_cannot_be_opened_is_a_failure_of_its_source(sources: Sources) -> None:
    source, receiver = sources.add(secret="no sealed text")
    collect_sources()
    assert (status(source).problem, receiver.requests) == ("credential", [])


def _answer(*series: tuple[dict[str, str], list[tuple[float, str]]]) -> bytes:
    result = [{"metric": labels, "values": [list(pair) for pair in values]} for labels, values in series]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


def test_a_prometheus_server_is_asked_for_declared_metrics_within_its_labels(sources: Sources) -> None:
    source, receiver = sources.add(SourceKind.PROMETHEUS, matchers={"cluster": 'a"b\\'})
    TelemetrySource.unscoped.filter(pk=source.pk).update(address=f"{receiver.url}/prom/")
    labels = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": sources.gpu()}
    second = START.timestamp()
    receiver.body = _answer(
        ({**labels, "instance": "a"}, [(second - 40, "10"), (second - 10, "20")]),
        ({**labels, "instance": "b"}, [(second - 12, "99")]),
    )
    assert collect_sources() == 1
    (request,) = receiver.requests
    assert (request.method, request.path) == ("POST", "/prom/api/v1/query")
    (query,) = parse_qs(request.body.decode())["query"]
    assert query.startswith('{__name__=~"DCGM_FI_DEV_') and query.endswith(', cluster="a\\"b\\\\"}[90s]')
    row = Reading.unscoped.get(channel__scope=Scope.CARD)
    assert (row.cores_used, row.at_ms) == (20.0, round((second - 10) * 1000))
    assert row.interval_ms == 30_000  # as it is scraped, and not as the server is asked
    # The same sample again is the same reading.
    sources.later()
    collect_sources()
    assert Reading.unscoped.filter(channel__scope=Scope.CARD).count() == 1


def test_a_refusal_of_prometheus_is_reported_by_its_kind_alone(sources: Sources) -> None:
    source, receiver = sources.add(SourceKind.PROMETHEUS)
    receiver.status = 400
    receiver.body = b'{"status":"error","errorType":"bad_data","error":"words of the server"}'
    collect_sources()
    assert (status(source).problem, status(source).detail) == ("query-failed", "bad_data")


def test_a_source_that_is_deleted_while_it_is_read_is_forgotten(sources: Sources) -> None:
    source, _ = sources.add(body=exp.text(*exp.dcgm({"DEV_GPU_UTIL": 1}, gpu=sources.gpu())))

    def deleting(*_: object) -> None:
        TelemetrySource.unscoped.filter(pk=source.pk).delete()

    assert collect_sources(deleting) == 1
    assert not SourceStatus.unscoped.exists() and not SourceNode.unscoped.exists()


def test_a_failure_to_store_is_raised_after_all_were_noted(sources: Sources) -> None:
    source, _ = sources.add(body=exp.text(*exp.dcgm({"DEV_GPU_UTIL": 1}, gpu=sources.gpu())))

    def broken(*_: object) -> list[MeasureBatch]:
        raise RuntimeError("disk full")

    with pytest.raises(ExceptionGroup):
        collect_sources(broken)
    assert status(source).values == 1


def test_the_state_of_a_source_follows_its_answers(sources: Sources) -> None:
    source, receiver = sources.add(body=exp.text(*exp.dcgm({"DEV_GPU_UTIL": 1}, gpu=sources.gpu())))

    def state() -> tuple[SourceState, list[NodeState], float | None]:
        found = TelemetrySource.unscoped.select_related("cluster", "status").get(pk=source.pk)
        (line,) = describe_sources([found])
        return line.state, [node.state for node in line.nodes], line.samples_per_minute

    missing = [NodeState.MISSING, NodeState.MISSING]
    assert state() == (SourceState.WAITING, missing, None)
    collect_sources()
    assert state() == (SourceState.PARTIAL, [NodeState.FRESH, NodeState.MISSING], 4.0)
    receiver.body += exp.text(*exp.dcgm({"DEV_GPU_UTIL": 1}, gpu=sources.gpu(0, 1))).encode()
    sources.later()
    collect_sources()
    assert state() == (SourceState.FRESH, [NodeState.FRESH, NodeState.FRESH], 8.0)
    receiver.status = 500
    sources.later()
    collect_sources()
    assert state()[0] == SourceState.FAILING
    receiver.status = 200
    sources.later()
    collect_sources()
    sources.later(300)
    assert state() == (SourceState.STALE, [NodeState.STALE, NodeState.STALE], None)
    TelemetrySource.unscoped.update(enabled=False)
    assert state()[0] == SourceState.DISABLED


def test_what_the_agent_of_a_node_measures_is_not_taken_from_an_exporter(sources: Sources) -> None:
    agent = NodeAgent.unscoped.create(
        node=sources.bench.world.nodes[0], seen_at=clock.now(), devices_at=clock.now()
    )
    card = {"DEV_GPU_UTIL": 50, "DEV_GPU_TEMP": 60}
    own, other = exp.dcgm(card, gpu=sources.gpu()), exp.dcgm(card, gpu=sources.gpu(0, 1))
    sources.add(body=exp.text(*own, *other))

    def stored() -> list[tuple[str, float | None, float | None]]:
        rows = Reading.unscoped.filter(channel__scope=Scope.CARD).select_related("channel")
        names = {node.pk: node.name for node in sources.bench.world.nodes}
        return sorted((names[row.channel.node_id], row.cores_used, row.temperature_c) for row in rows)

    collect_sources()
    assert stored() == [("node-2", 50.0, 60.0)]
    Reading.unscoped.all().delete()
    sources.later(60)
    collect_sources()
    assert stored() == [("node-1", 50.0, 60.0), ("node-2", 50.0, 60.0)]
    lines = {line.node: line.state for line in describe_agents(sources.bench.world.platform_admin)}
    assert lines == {"node-1": NodeState.STALE, "node-2": NodeState.MISSING}
    NodeAgent.unscoped.filter(pk=agent.pk).update(seen_at=clock.now())
    lines = {line.node: line.state for line in describe_agents(sources.bench.world.platform_admin)}
    assert lines == {"node-2": NodeState.MISSING, "node-1": NodeState.FRESH}


def reported(sources: Sources, **parts: Any) -> NodeAgent:
    """Deliver a report of the agent of node-1."""
    node, at_ms = sources.bench.world.nodes[0], to_ms(clock.now())
    batch = {"at_ms": at_ms, "interval_ms": 15_000, **parts}
    told = {"version": 1, "node": node.name, "sent_at_ms": at_ms, "batches": [batch]}
    report_store(node=node, report=read_report(told, at_ms))
    return NodeAgent.unscoped.get(node=node)


@pytest.mark.parametrize("kind", ["nothing", "empty values", "a GPU of nobody", "a pod of nobody"])
def test_an_agent_that_measures_nothing_silences_no_exporter(sources: Sources, kind: str) -> None:
    sources.add(body=exp.text(*exp.dcgm({"DEV_GPU_UTIL": 50}, gpu=sources.gpu())))
    parts: dict[str, dict[str, Any]] = {
        "nothing": {},
        "empty values": {"devices": [{"uuid": sources.gpu(), "values": {}}]},
        "a GPU of nobody": {"devices": [{"uuid": "GPU-none", "values": {"power_w": 1}}]},
        "a pod of nobody": {
            "slices": [{"device": sources.gpu(), "pod_uid": "none", "values": {"utilization_percent": 1}}]
        },
    }
    agent = reported(sources, **parts[kind])
    assert (agent.devices_at, agent.slices_at) == (None, None)
    collect_sources()
    assert Reading.unscoped.filter(channel__scope=Scope.CARD).get().cores_used == 50.0


def test_an_agent_speaks_for_gpus_and_slices_apart(sources: Sources) -> None:
    start_pods()
    agent = reported(sources, devices=[{"uuid": sources.gpu(), "values": {"power_w": 7}}])
    assert (agent.devices_at, agent.slices_at) == (clock.now(), None)
    pod = Allocation.unscoped.filter(task__job=sources.bench.sliced).earliest("pod_name")
    part = {"device": sources.gpu(), "pod_uid": pod.pod_uid, "values": {"memory_used_mib": 1}}
    sources.later()
    then = reported(sources, slices=[part])
    assert (then.devices_at, then.slices_at) == (agent.devices_at, clock.now())
    levels = [{level for level, _ in cover.said} for cover in _agent_coverage(sources.bench.world.cluster.pk)]
    assert levels == [{Level.DEVICE}, {Level.SLICE}]
