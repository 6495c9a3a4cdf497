"""Metrics of all measures of a GPU in the catalogue that have no metric of their own.

Gauges and states are those of the last sample, counters their increase in 15 minutes.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from alerts.metrics.base import AlertMetric, Observation, Unit
from alerts.metrics.hardware import observe_gpu, observe_sample
from clusters.gpu.measures import BY_NAME
from clusters.models import Device
from foundation.core.actor import SYSTEM
from telemetry.series.measures.growth import counter_growth
from telemetry.series.readings.now import GpuNow, measures_now

GROWTH_WITHIN: Final = timedelta(minutes=15)
_SLOWED: Final = 0x8 | 0x20 | 0x40 | 0x80
"""Reasons for lower clocks that are faults: heat and the hardware's own protection, but no power limit."""
_USE: Final = 95.0
Values = Mapping[str, float]


def _make_reader(read: Callable[[Values, Device], float | None]) -> Callable[[datetime], list[Observation]]:
    """Return a reader of one figure of the last sample of each GPU; None if it was not measured."""

    def read_gpus(now: datetime) -> list[Observation]:
        devices, latest = _LATEST.read_latest(now)
        return [
            observe_sample(device, latest.get(device.pk), lambda sample, of: read(sample.values, of))
            for device in devices
        ]

    return read_gpus


@dataclass(slots=True)
class _LatestSamples:
    """The last samples of all GPUs, read once for all metrics of one evaluation: these share its `now`."""

    _now: datetime | None = None
    _found: tuple[Sequence[Device], Mapping[uuid.UUID, GpuNow]] = ((), {})

    def read_latest(self, now: datetime) -> tuple[Sequence[Device], Mapping[uuid.UUID, GpuNow]]:
        """Return the GPUs, and the last sample of each that has one."""
        if self._now is not now:
            self._found, self._now = (list(_devices()), measures_now(SYSTEM)), now
        return self._found


_LATEST: Final = _LatestSamples()


def _make_growth_reader(measure: str) -> Callable[[datetime], list[Observation]]:
    """Return a reader of the increase of a counter of each GPU; None if it was not measured twice."""

    def read_gpus(now: datetime) -> list[Observation]:
        grown: defaultdict[uuid.UUID, float | None] = defaultdict(lambda: None)
        grown.update(counter_growth(SYSTEM, measure, since=now - GROWTH_WITHIN))
        devices, latest = _LATEST.read_latest(now)
        return [
            observe_gpu(
                device,
                grown[device.pk],
                is_supported=device.pk not in latest or measure in latest[device.pk].values,
            )
            for device in devices
        ]

    return read_gpus


def _devices() -> Any:
    return Device.unscoped.filter(node__present=True).select_related("node").order_by("pk")


def _gauge(measure: str, label: Any, suggested: float) -> AlertMetric:
    return AlertMetric(
        f"gpu.{measure}", label, "", Unit(BY_NAME[measure].unit),
        _make_reader(lambda values, _device: values.get(measure)), suggested, of_cluster=True,
    )  # fmt: skip


def _state(measure: str, label: Any, text: Any, bits: int) -> AlertMetric:
    def read(values: Values, _device: Device) -> float | None:
        return float(bool(int(values[measure]) & bits)) if measure in values else None

    return AlertMetric(
        f"gpu.{measure}", label, text, Unit.COUNT, _make_reader(read), suggested=0, of_cluster=True
    )


def _counter(measure: str, label: Any) -> AlertMetric:
    return AlertMetric(
        f"gpu.{measure}", label, _("New ones, by the counter of the GPU."), Unit.COUNT,
        _make_growth_reader(measure), suggested=0, of_cluster=True,
    )  # fmt: skip


def _read_free_memory(values: Values, device: Device) -> float | None:
    used = values.get("memory_used_mib")
    return None if used is None else max(0.0, device.memory_mib - used)


GPU_MEASURES: Final = (
    _gauge("memory_used_mib", _("Used memory of a GPU"), 70_000),
    AlertMetric(
        "gpu.memory_free_mib", _("Free memory of a GPU"), "", Unit.MEBIBYTES, _make_reader(_read_free_memory),
        suggested=1_024, of_cluster=True,
    ),
    _gauge("memory_copy_percent", _("Memory copy utilization of a GPU"), _USE),
    _gauge("encoder_percent", _("Utilization of a GPU's video encoder"), _USE),
    _gauge("decoder_percent", _("Utilization of a GPU's video decoder"), _USE),
    _gauge("memory_temperature_c", _("Memory temperature of a GPU"), 95),
    _gauge("power_limit_w", _("Power limit of a GPU"), 600),
    _gauge("sm_clock_mhz", _("SM clock of a GPU"), 2_000),
    _gauge("memory_clock_mhz", _("Memory clock of a GPU"), 3_000),
    _gauge("video_clock_mhz", _("Video clock of a GPU"), 2_000),
    _gauge("pcie_tx_mib_s", _("PCIe traffic from a GPU"), 20_000),
    _gauge("pcie_rx_mib_s", _("PCIe traffic to a GPU"), 20_000),
    _gauge("nvlink_mib_s", _("NVLink traffic of a GPU"), 300_000),
    _gauge("graphics_active_percent", _("Graphics engine activity of a GPU"), _USE),
    _gauge("sm_active_percent", _("SM activity of a GPU"), _USE),
    _gauge("sm_occupancy_percent", _("SM occupancy of a GPU"), _USE),
    _gauge("tensor_active_percent", _("Tensor core activity of a GPU"), _USE),
    _gauge("fp16_active_percent", _("FP16 activity of a GPU"), _USE),
    _gauge("fp32_active_percent", _("FP32 activity of a GPU"), _USE),
    _gauge("fp64_active_percent", _("FP64 activity of a GPU"), _USE),
    _gauge("dram_active_percent", _("Memory bandwidth utilization of a GPU"), _USE),
    _state(
        "throttle_reasons", _("Slowed GPU"), _("1 while heat or the hardware lowers the clocks."),
        _SLOWED,
    ),
    _state("row_remap_pending", _("GPU with pending row remapping"), _("1 until the GPU is reset."), 1),
    _state("row_remap_failure", _("GPU with failed row remapping"), _("1 if the GPU has to be replaced."), 1),
    _counter("ecc_corrected", _("Corrected ECC errors of a GPU in 15 minutes")),
    _counter("ecc_uncorrected", _("Uncorrected ECC errors of a GPU in 15 minutes")),
    _counter("remapped_rows", _("Remapped rows of a GPU in 15 minutes")),
    _counter("pcie_replays", _("PCIe replays of a GPU in 15 minutes")),
    _counter("nvlink_errors", _("NVLink errors of a GPU in 15 minutes")),
)  # fmt: skip
"""Metrics by the names of the catalogue."""
