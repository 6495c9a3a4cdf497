"""Measurements reach the platform once and in order, whatever the platform does meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from telemetry.agent.clock import SteadyClock
from telemetry.agent.push.buffer import KEEP_S, Buffer, make_batch
from telemetry.agent.push.keys import ExchangedKey, FileKey, KeySource, NoKey
from telemetry.agent.push.pusher import Pusher
from telemetry.agent.push.requests import Platform, Unreachable
from telemetry.agent.snapshot import AgentEvent, GpuSample, NodeSnapshot, ProcessSample, SliceSample
from tests.fixtures.sample_server import SampleServer

WALL = 1_700_000_000.0


class Clock:
    """The frozen clocks of the node: monotonic and wall time."""

    def __init__(self) -> None:
        self.now, self.wall_ahead = 1000.0, WALL

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + self.wall_ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def buffer() -> Buffer:
    return Buffer(1 << 20)


def snapshot(at: float, values: dict[str, float] | None = None, **more: Any) -> NodeSnapshot:
    return NodeSnapshot(at, (GpuSample("GPU-a", None, 0, values or {"power_w": 1.5}),), **more)


@pytest.fixture(autouse=True)
def _platform_clock(sample_server: SampleServer) -> None:
    sample_server.now_ms = round((1000 + WALL) * 1000)


def fill(buffer: Buffer, count: int, values: dict[str, float] | None = None) -> None:
    for number in range(count):
        buffer.put(make_batch(snapshot(float(number), values), 15))


def pusher(url: str, buffer: Buffer, clock: Clock, keys: KeySource) -> Pusher:
    return Pusher(
        Platform(url), keys, "gpu-1", buffer, SteadyClock(clock.monotonic, clock.wall), lambda _: None,
        lambda _: None,
    )  # fmt: skip


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    file.write_text("key-1\n")
    return file


@pytest.fixture
def sender(sample_server: SampleServer, buffer: Buffer, clock: Clock, key_file: Path) -> Pusher:
    return pusher(sample_server.url, buffer, clock, FileKey(key_file))


def at_ms(number: float) -> int:
    return round((number + WALL) * 1000)


def test_a_batch_is_written_as_the_platform_takes_it(
    sender: Pusher, sample_server: SampleServer, buffer: Buffer
) -> None:
    row = {"device": "GPU-a", "pod_uid": "u", "container": "main", "values": {"idle_s": 3.0}}
    process = {"device": "GPU-a", "pid": 7, "name": "x", "pod_uid": None, "container_id": None, "values": {}}
    made = NodeSnapshot(
        990.0,
        (GpuSample("MIG-a", "GPU-a", 0, {"memory_used_mib": 2.0}),),
        (SliceSample("GPU-a", "u", "team", "job-0", "main", {"idle_s": 3.0}),),
        (ProcessSample("GPU-a", 7, "x", None, None, {}),),
        (AgentEvent("xid", "GPU-a", 985.5, 79), AgentEvent("enumerated", None, 990.0)),
    )
    buffer.put(make_batch(made, 15))
    sender.note_inventory({"driver": "580", "devices": []})
    sender.note_unsupported({"GPU-a": ["power_w"]})
    assert sender.push_once()
    (body,) = sample_server.bodies
    assert body == {
        "version": 1, "node": "gpu-1", "sent_at_ms": at_ms(1000),
        "inventory": {"driver": "580", "devices": []}, "unsupported": {"GPU-a": ["power_w"]},
        "batches": [{
            "at_ms": at_ms(990), "interval_ms": 15000, "slices": [row], "processes": [process],
            "devices": [{"uuid": "MIG-a", "parent": "GPU-a", "values": {"memory_used_mib": 2.0}}],
            "events": [
                {"device": "GPU-a", "kind": "xid", "code": 79, "at_ms": at_ms(985.5)},
                {"device": None, "kind": "enumerated", "code": None, "at_ms": at_ms(990)},
            ],
        }],
    }  # fmt: skip
    assert sample_server.encodings == ["gzip"]
    assert (len(buffer), buffer.bytes) == (0, 0)


def test_the_inventory_is_sent_until_it_is_taken_and_when_devices_are_unknown(
    sender: Pusher, sample_server: SampleServer, buffer: Buffer
) -> None:
    sender.note_inventory({"devices": []})
    sample_server.fail = [500]
    fill(buffer, 1)
    assert not sender.push_once()
    sender.push_once()
    for unknown in ([], ["GPU-a"], []):
        sample_server.unknown = unknown
        fill(buffer, 1)
        sender.push_once()
    fill(buffer, 1)
    sender.push_once()
    told = [body["inventory"] is not None for body in sample_server.bodies]
    assert told == [True, False, False, True, False]


def test_an_outage_loses_nothing_and_the_order_is_kept(
    sender: Pusher, sample_server: SampleServer, buffer: Buffer
) -> None:
    assert sample_server.server
    port = sample_server.server.server_port
    sample_server.stop()
    fill(buffer, 3)
    assert [sender.push_once() for _ in range(3)] == [False] * 3
    fill(buffer, 2)
    sample_server.start(port)
    assert sender.push_once()
    assert [batch["at_ms"] for batch in sample_server.batches] == [at_ms(n) for n in (0, 1, 2, 0, 1)]
    assert sender.results == {"unreachable": 3, "200": 1}


def test_pauses_grow_with_jitter_and_end_with_success(
    sender: Pusher, sample_server: SampleServer, buffer: Buffer
) -> None:
    class Over(BaseException):
        """The end of the test."""

    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            sample_server.fail = []
        if len(pauses) == 10:
            raise Over

    def wait(_: float) -> bool:
        if not len(buffer):  # all was sent: add another batch, and the platform fails again
            sample_server.fail = [503] * 2
            fill(buffer, 1)
        return True

    sender.pause, buffer.wait = pause, wait  # type: ignore[method-assign]
    fill(buffer, 1)
    sample_server.fail = [503] * 8
    with pytest.raises(Over):
        sender.run()
    bounds = [1, 2, 4, 8, 16, 32, 60, 60, 1, 2]
    assert all(bound / 2 <= pause <= bound for pause, bound in zip(pauses, bounds, strict=True))
    assert len(set(pauses)) == len(pauses)


def test_a_wait_that_the_platform_asks_for_is_kept(
    sender: Pusher, sample_server: SampleServer, buffer: Buffer
) -> None:
    class Over(BaseException):
        """The end of the test."""

    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise Over

    sender.pause = pause
    sample_server.fail, sample_server.retry_after = [429, 503], "30"
    fill(buffer, 1)
    with pytest.raises(Over):
        sender.run()
    assert pauses[0] == 30
    assert len(buffer) == 1


def test_a_refused_key_is_exchanged_anew(
    sample_server: SampleServer, buffer: Buffer, clock: Clock, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(sample_server.token)
    keys = ExchangedKey(Platform(sample_server.url), "lab", "gpu-1", token, clock.wall)
    sender = pusher(sample_server.url, buffer, clock, keys)
    fill(buffer, 1)
    assert sender.push_once()
    sample_server.key = "key-2"
    fill(buffer, 1)
    assert [sender.push_once(), sender.push_once()] == [False, True]
    assert sample_server.exchanges == [{"cluster": "lab", "node": "gpu-1"}] * 2
    assert len(sample_server.batches) == 2


def test_a_key_is_renewed_before_it_ends(sample_server: SampleServer, clock: Clock, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(sample_server.token)
    keys = ExchangedKey(Platform(sample_server.url), "lab", "gpu-1", token, clock.wall)
    sample_server.expires_at = "2023-11-14T23:29:59Z"  # 3 600 s after the clock's time
    assert keys.read_key() == "key-1"
    clock.now += 2000
    keys.read_key()
    assert len(sample_server.exchanges) == 1
    clock.now += 900
    keys.read_key()
    assert len(sample_server.exchanges) == 2


def test_a_missing_key_is_reported_and_measurements_wait(
    sample_server: SampleServer, buffer: Buffer, clock: Clock, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("another-token")
    keys = ExchangedKey(Platform(sample_server.url), "lab", "gpu-1", token, clock.wall)
    sender = pusher(sample_server.url, buffer, clock, keys)
    fill(buffer, 2)
    assert not sender.push_once()
    assert (sender.results, len(buffer)) == ({"no-key": 1}, 2)
    with pytest.raises(NoKey, match="not the agent's token"):
        keys.read_key()


@pytest.mark.parametrize("text", ["", "two words", "line\nbreak", "käse"])
def test_a_file_without_a_key_is_reported(key_file: Path, text: str) -> None:
    key_file.write_text(text)
    with pytest.raises(NoKey):
        FileKey(key_file).read_key()


def test_a_body_that_is_too_large_is_sent_in_parts(
    sender: Pusher, sample_server: SampleServer, buffer: Buffer
) -> None:
    sample_server.most_bytes = 3000
    fill(buffer, 40, {"power_w": 1.0, "temperature_c": 40.0})
    for _ in range(60):
        if not len(buffer):
            break
        assert sender.push_once()
    assert [batch["at_ms"] for batch in sample_server.batches] == [at_ms(n) for n in range(40)]
    assert ("/api/v1/agent/samples", 413) in sample_server.requests
    assert not buffer.dropped


def test_one_batch_that_is_too_large_or_wrong_does_not_hold_up_the_others(
    sender: Pusher, sample_server: SampleServer, buffer: Buffer
) -> None:
    fill(buffer, 5)
    sample_server.wrong = {at_ms(2)}
    for _ in range(12):
        sender.push_once()
    assert [batch["at_ms"] for batch in sample_server.batches] == [at_ms(n) for n in (0, 1, 3, 4)]
    assert buffer.dropped == {"refused": 1}
    sample_server.most_bytes = 10
    fill(buffer, 1)
    for _ in range(3):
        sender.push_once()
    assert buffer.dropped == {"refused": 2}


def test_an_inventory_that_is_refused_holds_up_no_batch(
    sender: Pusher, sample_server: SampleServer, buffer: Buffer
) -> None:
    sender.note_inventory({"devices": [1]})
    sender.note_unsupported({"GPU-a": ["x" * 99]})
    fill(buffer, 3)
    for _ in range(3):
        assert sender.push_once()
    assert (len(buffer), buffer.dropped, len(sample_server.batches)) == (0, {}, 3)
    sender.note_inventory({"devices": []})
    sender.note_unsupported({"GPU-a": ["power_w"]})
    fill(buffer, 1)
    sender.push_once()
    told = sample_server.bodies[-1]
    assert (told["inventory"], told["unsupported"]) == ({"devices": []}, {"GPU-a": ["power_w"]})


@pytest.mark.parametrize(
    ("asked", "expected"),
    [(30, [30.0]), (0.1, [5.0]), (9999, [300.0]), ("x", []), (None, []), (float("nan"), [])],
)
def test_the_interval_that_the_platform_asks_for_is_bounded(
    sender: Pusher, sample_server: SampleServer, buffer: Buffer, asked: object, expected: list[float]
) -> None:
    told: list[float] = []
    sender.set_interval = told.append
    sample_server.interval_s = asked
    fill(buffer, 1)
    sender.push_once()
    assert told == expected


def test_the_buffer_keeps_two_hours_and_no_more_than_its_bytes() -> None:
    buffer = Buffer(1 << 20)
    for number in range(0, int(KEEP_S) + 150, 15):
        buffer.put(make_batch(snapshot(float(number)), 15))
    assert buffer.dropped == {"old": 9}
    small = Buffer(4000)
    fill(small, 100)
    assert small.bytes <= 4000
    assert small.dropped["full"] == 100 - len(small)
    assert json.loads(small.peek(1)[0].to_json(SteadyClock()))["devices"], "the newest are kept"


def test_a_corrected_clock_corrects_what_waits(
    sender: Pusher, sample_server: SampleServer, buffer: Buffer, clock: Clock
) -> None:
    clock.wall_ahead = 0
    sender.clock.to_ms(0)
    fill(buffer, 1)
    clock.wall_ahead = WALL
    sender.push_once()
    clock.wall_ahead += 0.5
    fill(buffer, 1)
    sender.push_once()
    assert [batch["at_ms"] for batch in sample_server.batches] == [at_ms(0)] * 2


def test_an_answer_that_is_no_http_is_no_crash(buffer: Buffer) -> None:
    for url in ("http://127.0.0.1:1", "http://127.0.0.1:99999"):
        with pytest.raises(Unreachable):
            Platform(url).post("/x", b"{}", token="t")
