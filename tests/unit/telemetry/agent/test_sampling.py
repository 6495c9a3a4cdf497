"""Snapshots contain the reason of a missing sample, and each event of a device once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusters.gpu.hami import CardShare
from telemetry.agent.cgroups import ProcessTable
from telemetry.agent.nvml.process import Outcome, PollState
from telemetry.agent.pods import PodTable, PodView
from telemetry.agent.sampling import Sampler
from telemetry.agent.slices import SliceReader
from telemetry.agent.snapshot import AgentEvent, NodeSnapshot
from tests.builders.node_files import CONTAINER, cgroup_path, put_process

UID = "4a1f6c1e-7f5b-4a51-9f0e-6d1b1d8f0c55"


class Script:
    """NVML with scripted polls, one after another."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def poll(self, wait_s: float) -> Outcome:
        return self.outcomes.pop(0)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def sampler(script: Script, tmp_path: Path) -> Sampler:
    table = ProcessTable(tmp_path / "proc")
    slices = SliceReader(tmp_path / "hami", table)
    return Sampler(script, PodTable(), slices, table, lambda: 50.0, lambda: 1e6)  # type: ignore[arg-type]


def answer(*uuids: str, **more: Any) -> Outcome:
    values = {"power_w": 1.23456}
    devices = [
        {"uuid": uuid, "parent": None, "index": int(uuid[-1]), "values": values, "lists_processes": True}
        for uuid in uuids
    ]
    empty: dict[str, Any] = {
        "monotonic_s": 42.0, "devices": devices, "processes": [], "fallen": {}, "down": {}, "xids": [],
        "unsupported": {}, "errors": {}, "inventory": None,
    }  # fmt: skip
    return Outcome(PollState.OK, {**empty, **more})


def take(sampler: Sampler, script: Script, outcome: Outcome) -> NodeSnapshot:
    script.outcomes.append(outcome)
    return sampler.sample(1)


def test_a_device_that_falls_is_an_event_once_and_absent_until_it_is_back(
    sampler: Sampler, script: Script
) -> None:
    take(sampler, script, answer("GPU-0", "GPU-1"))
    fallen = take(sampler, script, answer("GPU-0", fallen={"GPU-1": "lost"}, down={"1": "lost"}))
    assert fallen.events == (AgentEvent("lost", "GPU-1", 42.0),)
    later = take(sampler, script, answer("GPU-0", down={"1": "lost"}))
    assert (later.events, later.absent) == ((), {"GPU-1": "lost"})
    assert take(sampler, script, answer("GPU-0", "GPU-1")).absent == {}


def test_a_device_that_is_not_enumerated_any_more_is_lost(sampler: Sampler, script: Script) -> None:
    take(sampler, script, answer("GPU-0", "GPU-1"))
    gone = take(sampler, script, answer("GPU-0"))
    assert gone.events == (AgentEvent("lost", "GPU-1", 42.0),)
    changed = take(sampler, script, answer("GPU-0", down={"1": "reset-required"}))
    assert changed.events == (AgentEvent("reset-required", "GPU-1", 42.0),)


def test_a_hung_poll_makes_all_devices_absent_and_the_sick_one_for_longer(
    sampler: Sampler, script: Script
) -> None:
    take(sampler, script, answer("GPU-0", "GPU-1"))
    hung = take(sampler, script, Outcome(PollState.HUNG, device="GPU-1", call="x"))
    assert hung.absent == {"GPU-0": "hung", "GPU-1": "hung"}
    assert hung.devices == ()
    after = take(sampler, script, answer("GPU-0"))
    assert (after.absent, after.events) == ({"GPU-1": "hung"}, ())
    assert take(sampler, script, answer("GPU-0", "GPU-1")).absent == {}
    assert take(sampler, script, Outcome(PollState.HUNG, device="#0")).absent["GPU-0"] == "hung"


def test_a_replaced_driver_is_an_event_once(sampler: Sampler, script: Script) -> None:
    take(sampler, script, answer("GPU-0"))
    first = take(sampler, script, Outcome(PollState.MISMATCH, text="x"))
    assert [event.kind for event in first.events] == ["driver-mismatch"]
    assert first.absent == {"GPU-0": "driver-mismatch"}
    assert take(sampler, script, Outcome(PollState.WAITING)).absent == {"GPU-0": "driver-mismatch"}
    assert take(sampler, script, Outcome(PollState.MISMATCH, text="x")).events == ()


def test_a_library_that_cannot_be_used_is_noted_from_the_first_time_on(
    sampler: Sampler, script: Script
) -> None:
    for now, state in ((10.0, PollState.MISSING), (20.0, PollState.WAITING), (30.0, PollState.MISMATCH)):
        sampler.monotonic = lambda now=now: now
        take(sampler, script, Outcome(state))
        assert sampler.unusable_since == 10
    take(sampler, script, answer("GPU-0"))
    assert sampler.unusable_since is None


def test_xid_errors_are_counted_over_restarts_and_absent_where_unsupported(
    sampler: Sampler, script: Script
) -> None:
    row = {"device": "GPU-0", "code": 79, "monotonic_s": 41.5}
    first = take(sampler, script, answer("GPU-0", "GPU-1", xids=[row, {**row, "code": 48}]))
    assert first.devices[0].values == {"power_w": 1.235, "xid": 48, "xid_errors": 2}
    assert first.devices[1].values == {"power_w": 1.235, "xid_errors": 0}
    assert first.events[:2] == (AgentEvent("xid", "GPU-0", 41.5, 79), AgentEvent("xid", "GPU-0", 41.5, 48))
    later = take(sampler, script, answer("GPU-0", xids=[row], unsupported={"GPU-1": ["xid_errors"]}))
    assert later.devices[0].values["xid_errors"] == 3
    last = take(sampler, script, answer("GPU-1", unsupported={"GPU-1": ["xid_errors"]}))
    assert last.devices[0].values == {"power_w": 1.235}


def test_failed_calls_are_added_up_over_restarts(sampler: Sampler, script: Script) -> None:
    for errors in ({"a": 2}, {"a": 5, "b": 1}, {"a": 1}, {"a": 1}):
        take(sampler, script, answer("GPU-0", errors=errors))
    assert sampler.errors == {"a": 6, "b": 1}


def test_processes_get_their_pod_and_their_name(sampler: Sampler, script: Script) -> None:
    put_process(sampler.table.root, 10, cgroup_path(UID), "train")
    put_process(sampler.table.root, 11, "/user.slice", "miner")
    rows = [{"device": "GPU-0", "pid": pid, "values": {}} for pid in (10, 11, 12)]
    found = take(sampler, script, answer("GPU-0", processes=rows)).processes
    told = [(row.name, row.pod_uid, row.container_id) for row in found]
    assert told == [("train", UID, CONTAINER), ("miner", None, None), ("", None, None)]


@pytest.mark.parametrize("state", [each for each in PollState if each is not PollState.OK])
def test_a_poll_without_an_answer_reports_limits_and_neither_use_nor_idleness(
    sampler: Sampler, script: Script, state: PollState
) -> None:
    share = {"main": {"GPU-0": CardShare("GPU-0", 3000, 30)}}
    sampler.pods.pods = {UID: PodView(UID, "team", "job-0", share, {CONTAINER: "main"}, {"main": 1.0})}
    put_process(sampler.table.root, 10, cgroup_path(UID))
    row = {"device": "GPU-0", "pid": 10, "values": {"memory_used_mib": 9.0, "utilization_percent": 80.0}}
    (busy,) = take(sampler, script, answer("GPU-0", processes=[row])).slices
    assert (busy.values["idle_s"], busy.values["utilization_percent"]) == (0, 80)
    (silent,) = take(sampler, script, Outcome(state)).slices
    assert silent.values == {"memory_limit_mib": 3000}


def test_a_new_inventory_is_sent_once(sampler: Sampler, script: Script) -> None:
    inventory = {"driver": "580", "devices": [{"uuid": "GPU-0"}]}
    first = take(sampler, script, answer("GPU-0", inventory=inventory))
    assert (first.inventory, first.events) == (inventory, (AgentEvent("enumerated", None, 42.0),))
    assert take(sampler, script, answer("GPU-0")).inventory is None
    assert sampler.describe_devices() == {"GPU-0": {"uuid": "GPU-0"}}
