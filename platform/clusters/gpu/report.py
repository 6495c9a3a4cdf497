"""Reads the report of a node agent from untrusted JSON.

Raises `ReportInvalid` with the path of the first wrong field, such as `batches.0.devices.2.values.power_w`.
Unknown fields and unknown measures are ignored: an agent may be newer than the platform.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from clusters.gpu.batches import (
    AgentReport,
    DeviceEvent,
    DeviceLink,
    DeviceValues,
    EventKind,
    GpuFacts,
    MeasureBatch,
    NodeGpuFacts,
    ProcessValues,
    SliceValues,
)
from clusters.gpu.measures import BY_NAME, Level

VERSION: Final = 1
AHEAD_MS: Final = 5 * 60_000
"""How far the clock of a node may be ahead of the platform's, in milliseconds."""
INTERVAL_MOST_MS: Final = 300_000
MOST_BATCHES: Final = 1_000
_MOST_DEVICES, _MOST_PARTS, _MOST_EVENTS, _MOST_LINKS = 256, 4_096, 1_000, 256
_LARGEST: Final = 1e15
_PERCENT_MOST: Final = 100.5  # allows for rounding of a mean
_MEMORY_MOST: Final = 2**31 - 1
_UUID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,79}")
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_LINKS: Final = frozenset(
    {"nvlink", "same-board", "single-switch", "multiple-switch", "host-bridge", "same-cpu", "system"}
)
T = TypeVar("T")


class ReportInvalid(ValueError):
    """A report is invalid; `path` names the field."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def read_report(data: object, now_ms: int) -> AgentReport:
    """Return the report. Raises: ReportInvalid."""
    report = _Fields(data, "")
    if report.read_integer("version", 1, 2**31) != VERSION:
        raise ReportInvalid("version")
    node = report.read_text("node", 253)
    latest = now_ms + AHEAD_MS
    raw = report.read_value("unsupported")
    unsupported = _Fields({} if raw is None else raw, "unsupported")
    if len(unsupported.values) > _MOST_DEVICES:
        raise ReportInvalid("unsupported")
    return AgentReport(
        node=node,
        sent_at_ms=report.read_integer("sent_at_ms", 0, 2**53),
        batches=report.read_items("batches", MOST_BATCHES, lambda fields: _batch(fields, node, latest)),
        inventory=None
        if report.read_value("inventory") is None
        else _inventory(report.read_fields("inventory")),
        unsupported={
            uuid: tuple(name for name in unsupported.read_texts(uuid, len(BY_NAME) * 2) if name in BY_NAME)
            for uuid in unsupported.values
            if _UUID.fullmatch(uuid)
        },
    )


class _Fields:
    """The fields of one object, at a path."""

    def __init__(self, data: object, path: str) -> None:
        if not isinstance(data, dict):
            raise ReportInvalid(path)
        self.values: Mapping[str, Any] = data
        self.path = path

    def path_of(self, name: str | int) -> str:
        return f"{self.path}.{name}" if self.path else str(name)

    def read_value(self, name: str) -> Any:
        return self.values.get(name)

    def read_fields(self, name: str) -> _Fields:
        return _Fields(self.read_value(name), self.path_of(name))

    def read_integer(self, name: str, low: int, high: int) -> int:
        value = self.read_value(name)
        if type(value) is not int or not low <= value <= high:
            raise ReportInvalid(self.path_of(name))
        return value

    def integer_or_none(self, name: str, low: int, high: int) -> int | None:
        return None if self.read_value(name) is None else self.read_integer(name, low, high)

    def read_text(self, name: str, longest: int, form: re.Pattern[str] | None = None) -> str:
        value = self.read_value(name)
        fits = isinstance(value, str) and 0 < len(value) <= longest and value.isprintable()
        if not fits or (form is not None and not form.fullmatch(value)):
            raise ReportInvalid(self.path_of(name))
        return str(value)

    def text_or_none(self, name: str, longest: int, form: re.Pattern[str] | None = None) -> str | None:
        return None if self.read_value(name) is None else self.read_text(name, longest, form)

    def text_or_empty(self, name: str, longest: int) -> str:
        return "" if self.read_value(name) in (None, "") else self.read_text(name, longest)

    def read_uuid(self, name: str) -> str:
        return self.read_text(name, 80, _UUID)

    def uuid_or_none(self, name: str) -> str | None:
        return None if self.read_value(name) is None else self.read_uuid(name)

    def _list(self, name: str, most: int) -> list[Any]:
        value = self.read_value(name)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > most:
            raise ReportInvalid(self.path_of(name))
        return value

    def read_items(self, name: str, most: int, read: Callable[[_Fields], T]) -> tuple[T, ...]:
        path = self.path_of(name)
        return tuple(
            read(_Fields(item, f"{path}.{number}")) for number, item in enumerate(self._list(name, most))
        )

    def read_texts(self, name: str, most: int) -> list[str]:
        found = self._list(name, most)
        if not all(isinstance(item, str) and len(item) <= 64 for item in found):
            raise ReportInvalid(self.path_of(name))
        return found

    def read_measures(self, level: Level) -> dict[str, float]:
        """Return the known measures of `values`, each a finite number that is not negative."""
        fields = self.read_fields("values")
        found: dict[str, float] = {}
        for name, value in fields.values.items():
            measure = BY_NAME.get(name)
            if measure is None or level not in measure.levels:
                continue
            most = {"%": _PERCENT_MOST, "MiB": _MEMORY_MOST}.get(measure.unit, _LARGEST)
            # NaN fails every comparison; whole numbers of any length are compared without conversion to a
            # float.
            if type(value) not in (int, float) or not 0 <= value <= most:
                raise ReportInvalid(fields.path_of(name))
            found[name] = min(float(value), 100.0) if measure.unit == "%" else float(value)
        return found


def _batch(fields: _Fields, node: str, latest: int) -> MeasureBatch:
    return MeasureBatch(
        node=node,
        at_ms=fields.read_integer("at_ms", 0, latest),
        interval_ms=fields.read_integer("interval_ms", 1_000, INTERVAL_MOST_MS),
        devices=fields.read_items("devices", _MOST_DEVICES, _device),
        slices=fields.read_items("slices", _MOST_PARTS, _slice),
        processes=fields.read_items("processes", _MOST_PARTS, _process),
        events=fields.read_items("events", _MOST_EVENTS, lambda event: _event(event, latest)),
    )


def _device(fields: _Fields) -> DeviceValues:
    return DeviceValues(
        fields.read_uuid("uuid"), fields.read_measures(Level.DEVICE), fields.uuid_or_none("parent")
    )


def _slice(fields: _Fields) -> SliceValues:
    return SliceValues(
        device=fields.read_uuid("device"),
        values=fields.read_measures(Level.SLICE),
        pod_uid=fields.read_text("pod_uid", 64),
        container=fields.text_or_empty("container", 253),
    )


def _process(fields: _Fields) -> ProcessValues:
    return ProcessValues(
        device=fields.read_uuid("device"),
        pid=fields.read_integer("pid", 0, 2**31 - 1),
        name=fields.text_or_empty("name", 4_096),
        values=fields.read_measures(Level.PROCESS),
        pod_uid=fields.text_or_none("pod_uid", 64),
        container_id=fields.text_or_none("container_id", 64, _HEX),
    )


def _event(fields: _Fields, latest: int) -> DeviceEvent:
    kind = fields.read_text("kind", 20)
    if kind not in set(EventKind):
        raise ReportInvalid(fields.path_of("kind"))
    code = fields.integer_or_none("code", 0, 2**31 - 1)
    return DeviceEvent(
        fields.uuid_or_none("device"), EventKind(kind), fields.read_integer("at_ms", 0, latest), code
    )


def _inventory(fields: _Fields) -> NodeGpuFacts:
    return NodeGpuFacts(
        driver=fields.text_or_empty("driver", 80),
        nvml=fields.text_or_empty("nvml", 80),
        cuda=fields.text_or_empty("cuda", 20),
        devices=fields.read_items("devices", _MOST_DEVICES, _facts),
    )


def _facts(fields: _Fields) -> GpuFacts:
    mig = fields.read_value("mig_enabled")
    if mig is not None and type(mig) is not bool:
        raise ReportInvalid(fields.path_of("mig_enabled"))
    return GpuFacts(
        uuid=fields.read_uuid("uuid"),
        name=fields.text_or_empty("name", 80),
        serial=fields.text_or_empty("serial", 80),
        index=fields.integer_or_none("index", 0, 10_000),
        minor=fields.integer_or_none("minor", 0, 10_000),
        pci_bus_id=fields.text_or_empty("pci_bus_id", 40),
        numa_node=fields.integer_or_none("numa_node", -1, 10_000),
        memory_mib=fields.integer_or_none("memory_mib", 0, _MEMORY_MOST),
        mig_enabled=mig,
        parent=fields.uuid_or_none("parent"),
        links=fields.read_items("links", _MOST_LINKS, _link),
    )


def _link(fields: _Fields) -> DeviceLink:
    kind = fields.read_text("kind", 20)
    if kind not in _LINKS:
        raise ReportInvalid(fields.path_of("kind"))
    return DeviceLink(fields.read_uuid("to"), kind, fields.integer_or_none("count", 0, 1_000) or 1)
