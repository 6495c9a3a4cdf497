"""Makes a snapshot of each poll: of NVML's answer, the pods, HAMi's files, and events."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from telemetry.agent.cgroups import ProcessTable
from telemetry.agent.nvml.process import NvmlProcess, Outcome, PollState
from telemetry.agent.pods import PodTable
from telemetry.agent.slices import SliceReader
from telemetry.agent.snapshot import AgentEvent, GpuSample, NodeSnapshot, ProcessSample

log = logging.getLogger(__name__)
_DIGITS: Final = 3


@dataclass(slots=True)
class Sampler:
    """Polls NVML and makes snapshots. `monotonic` and `wall` are clocks in seconds."""

    nvml: NvmlProcess
    pods: PodTable
    slices: SliceReader
    table: ProcessTable
    monotonic: Callable[[], float]
    wall: Callable[[], float]
    states: Counter[str] = field(default_factory=Counter)
    """The number of polls by their result."""
    errors: Counter[str] = field(default_factory=Counter)
    """The number of NVML calls that failed for a reason that may pass."""
    inventory: Mapping[str, Any] | None = None
    unusable_since: float | None = None
    """The time since which the driver's library is missing or of another version."""
    _inventory_is_new: bool = False
    _indexes: dict[str, int] = field(default_factory=dict)
    _absent: dict[str, str] = field(default_factory=dict)
    _totals_mib: dict[str, float] = field(default_factory=dict)
    _xids: dict[str, tuple[int, int]] = field(default_factory=dict)
    _errors_before: Mapping[str, int] = field(default_factory=dict)
    _unsupported: Mapping[str, list[str]] = field(default_factory=dict)
    _last: PollState = PollState.PENDING

    def sample(self, wait_s: float) -> NodeSnapshot:
        """Return a snapshot of the present measurements; wait for NVML for at most `wait_s`."""
        outcome = self.nvml.poll(wait_s)
        self.states[outcome.state.value] += 1
        events = self._note_state(outcome)
        devices: tuple[GpuSample, ...] = ()
        processes: tuple[ProcessSample, ...] = ()
        at = self.monotonic()
        if outcome.answer is not None:
            at = outcome.answer["monotonic_s"]
            events += self._note_answer(outcome.answer)
            devices = tuple(self._device(row) for row in outcome.answer["devices"])
            processes = tuple(self._process(row) for row in outcome.answer["processes"])
        slices = self.slices.read(self.pods.pods, devices, processes, self._totals_mib, self.wall())
        inventory = self.inventory if self._inventory_is_new else None
        self._inventory_is_new = False
        rows = (devices, tuple(slices), processes, tuple(events))
        return NodeSnapshot(at, *rows, dict(self._absent), self._unsupported, inventory)

    def describe_devices(self) -> dict[str, Mapping[str, Any]]:
        """Return the rows of the last inventory by uuid."""
        return {row["uuid"]: row for row in (self.inventory or {}).get("devices", ())}

    def index_of(self, uuid: str) -> int | None:
        """Return the index of a device in the last enumeration."""
        return self._indexes.get(uuid)

    def _note_state(self, outcome: Outcome) -> list[AgentEvent]:
        """Record why devices have no sample; return an event if the driver was replaced."""
        events = []
        if outcome.state is PollState.MISMATCH and self._last is not PollState.MISMATCH:
            log.error("%s: recreate the agent's pod, and see whether the node needs a reboot", outcome.text)
            events.append(AgentEvent("driver-mismatch", None, self.monotonic()))
        if outcome.state not in (PollState.OK, PollState.PENDING, PollState.WAITING):
            for uuid in self._indexes:
                self._absent.setdefault(uuid, outcome.state.value)
            for uuid, index in self._indexes.items():
                if outcome.device in (uuid, f"#{index}"):
                    self._absent[uuid] = outcome.state.value
        if outcome.state is not PollState.WAITING:
            self._last = outcome.state
        if outcome.state in (PollState.MISSING, PollState.MISMATCH):
            self.unusable_since = self.monotonic() if self.unusable_since is None else self.unusable_since
        elif outcome.state is PollState.OK:
            self.unusable_since = None
        return events

    def _note_answer(self, answer: Mapping[str, Any]) -> list[AgentEvent]:
        at = answer["monotonic_s"]
        whole = {row["uuid"]: row["index"] for row in answer["devices"] if row["parent"] is None}
        events = self._note_absent(answer, whole)
        for row in answer["xids"]:
            events.append(AgentEvent("xid", row["device"], row["monotonic_s"], row["code"]))
            if row["device"]:
                _, count = self._xids.get(row["device"], (0, 0))
                self._xids[row["device"]] = (row["code"], count + 1)
        for row in answer["devices"]:
            if "memory_total_mib" in row["values"]:
                self._totals_mib[row["uuid"]] = row["values"]["memory_total_mib"]
        if answer["inventory"] is not None:
            self._note_inventory(answer["inventory"])
            events.append(AgentEvent("enumerated", None, at))
        self._count_errors(answer["errors"])
        self._unsupported = answer["unsupported"]
        return events

    def _note_absent(self, answer: Mapping[str, Any], whole: Mapping[str, int]) -> list[AgentEvent]:
        """Record which known devices gave no sample; return an event for each newly lost one."""
        down = {int(index): kind for index, kind in answer["down"].items()}
        self._indexes.update(whole)
        events = []
        for uuid, index in self._indexes.items():
            before = self._absent.pop(uuid, None)
            if uuid in whole:
                continue
            if before == PollState.HUNG.value and index not in down:
                self._absent[uuid] = before  # it is left out for a while
                continue
            kind = answer["fallen"].get(uuid) or down.get(index, "lost")
            self._absent[uuid] = kind
            if before != kind:
                events.append(AgentEvent(kind, uuid, answer["monotonic_s"]))
        return events

    def _note_inventory(self, inventory: Mapping[str, Any]) -> None:
        self.inventory, self._inventory_is_new = inventory, True
        names = ", ".join(str(row["uuid"]) for row in inventory["devices"]) or "none"
        log.info("driver %s, devices: %s", inventory["driver"], names)

    def _count_errors(self, errors: Mapping[str, int]) -> None:
        """Add the worker's counts since the last answer; a new worker counts from 0."""
        for call, count in errors.items():
            before = self._errors_before.get(call, 0)
            self.errors[call] += count - before if count >= before else count
        self._errors_before = errors

    def _device(self, row: Mapping[str, Any]) -> GpuSample:
        values = {name: round(value, _DIGITS) for name, value in row["values"].items()}
        uuid = row["uuid"]
        if row["parent"] is None and "xid_errors" not in self._unsupported.get(uuid, ()):
            code, count = self._xids.get(uuid, (0, 0))
            values["xid_errors"] = float(count)
            if count:
                values["xid"] = float(code)
        return GpuSample(uuid, row["parent"], row["index"], values, row["lists_processes"])

    def _process(self, row: Mapping[str, Any]) -> ProcessSample:
        owner = self.table.find_owner(row["pid"])
        return ProcessSample(
            row["device"],
            row["pid"],
            self.table.read_name(row["pid"]),
            owner.pod_uid if owner else None,
            (owner.container_id or None) if owner else None,
            {name: round(value, _DIGITS) for name, value in row["values"].items()},
        )
