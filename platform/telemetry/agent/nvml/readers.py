"""The measures of one device, each with its call and the conversion to the catalogue's unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from telemetry.agent.nvml.calls import Calls

MIB: Final = 1 << 20
_MEMORY_V2: Final = 0x02000028
_APPLICATIONS: Final = "nvmlDeviceGetApplicationsClock"
_GPU_SENSOR: Final = pynvml.NVML_TEMPERATURE_GPU
_MOST: Final = 2**53
"""Drivers use numbers above this, which a float cannot hold exactly, for unknown values."""


@dataclass(frozen=True, slots=True)
class MeasureReader:
    """One call and the measures in its result."""

    call: str
    measures: tuple[str, ...]
    read: Callable[[Any], tuple[float, ...]]
    arguments: tuple[Any, ...] = ()

    @property
    def key(self) -> str:
        """The name under which this call with these arguments is recorded as unsupported."""
        return f"{self.call}{self.arguments}"


def _number(answer: Any) -> tuple[float, ...]:
    return (float(answer),)


def _thousandth(answer: Any) -> tuple[float, ...]:
    return (answer / 1000,)


def _first(answer: Any) -> tuple[float, ...]:
    return (float(answer[0]),)


def _kb_per_second(answer: Any) -> tuple[float, ...]:
    return (answer * 1000 / MIB,)


def _memory(answer: Any) -> tuple[float, ...]:
    return (answer.used / MIB, answer.total / MIB, answer.reserved / MIB)


def _memory_1(answer: Any) -> tuple[float, ...]:
    return (answer.used / MIB, answer.total / MIB)


_MEMORY: Final = (
    MeasureReader(
        "nvmlDeviceGetMemoryInfo",
        ("memory_used_mib", "memory_total_mib", "memory_reserved_mib"),
        _memory,
        (_MEMORY_V2,),
    ),
    # Before version 2, memory that the driver reserves for itself counts as used.
    MeasureReader("nvmlDeviceGetMemoryInfo", ("memory_used_mib", "memory_total_mib"), _memory_1),
)
INSTANCE_READERS: Final = (_MEMORY,)
"""The readers for a MIG instance; all other measures belong to the whole device."""

DEVICE_READERS: Final = (
    _MEMORY,
    (
        MeasureReader(
            "nvmlDeviceGetUtilizationRates",
            ("utilization_percent", "memory_copy_percent"),
            lambda answer: (answer.gpu, answer.memory),
        ),
    ),
    (MeasureReader("nvmlDeviceGetEncoderUtilization", ("encoder_percent",), _first),),
    (MeasureReader("nvmlDeviceGetDecoderUtilization", ("decoder_percent",), _first),),
    (
        MeasureReader("nvmlDeviceGetTemperatureV", ("temperature_c",), _number, (_GPU_SENSOR,)),
        MeasureReader("nvmlDeviceGetTemperature", ("temperature_c",), _number, (_GPU_SENSOR,)),
    ),
    (MeasureReader("nvmlDeviceGetPowerUsage", ("power_w",), _thousandth),),
    (MeasureReader("nvmlDeviceGetEnforcedPowerLimit", ("power_limit_w",), _thousandth),),
    (MeasureReader("nvmlDeviceGetTotalEnergyConsumption", ("energy_j",), _thousandth),),
    (MeasureReader("nvmlDeviceGetClockInfo", ("sm_clock_mhz",), _number, (pynvml.NVML_CLOCK_SM,)),),
    (MeasureReader("nvmlDeviceGetClockInfo", ("memory_clock_mhz",), _number, (pynvml.NVML_CLOCK_MEM,)),),
    (MeasureReader("nvmlDeviceGetClockInfo", ("video_clock_mhz",), _number, (pynvml.NVML_CLOCK_VIDEO,)),),
    (MeasureReader(_APPLICATIONS, ("app_sm_clock_mhz",), _number, (pynvml.NVML_CLOCK_SM,)),),
    (MeasureReader(_APPLICATIONS, ("app_memory_clock_mhz",), _number, (pynvml.NVML_CLOCK_MEM,)),),
    (
        MeasureReader("nvmlDeviceGetCurrentClocksEventReasons", ("throttle_reasons",), _number),
        MeasureReader("nvmlDeviceGetCurrentClocksThrottleReasons", ("throttle_reasons",), _number),
    ),
    (
        MeasureReader(
            "nvmlDeviceGetTotalEccErrors",
            ("ecc_corrected",),
            _number,
            (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_AGGREGATE_ECC),
        ),
    ),
    (
        MeasureReader(
            "nvmlDeviceGetTotalEccErrors",
            ("ecc_uncorrected",),
            _number,
            (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_AGGREGATE_ECC),
        ),
    ),
    (
        MeasureReader(
            "nvmlDeviceGetRemappedRows",
            ("remapped_rows", "row_remap_pending", "row_remap_failure"),
            lambda rows: (rows[0] + rows[1], float(bool(rows[2])), float(bool(rows[3]))),
        ),
    ),
    (MeasureReader("nvmlDeviceGetPcieReplayCounter", ("pcie_replays",), _number),),
)
# Both calls measure for 20 ms; on devices with GPM, that gives the mean of the whole interval.
PCIE_READERS: Final = tuple(
    (MeasureReader("nvmlDeviceGetPcieThroughput", (measure,), _kb_per_second, (counter,)),)
    for measure, counter in (
        ("pcie_tx_mib_s", pynvml.NVML_PCIE_UTIL_TX_BYTES),
        ("pcie_rx_mib_s", pynvml.NVML_PCIE_UTIL_RX_BYTES),
    )
)

Alternatives = tuple[tuple[MeasureReader, ...], ...]


def read_values(calls: Calls, device: str, handle: Any, readers: Alternatives) -> dict[str, float]:
    """Return the measures that a device supports. Raises: DeviceDown, DriverReplaced."""
    values: dict[str, float] = {}
    for alternatives in readers:
        for reader in alternatives:
            answer = calls.call(device, reader.call, handle, *reader.arguments, key=reader.key)
            if answer is not None:
                values.update(_plausible(zip(reader.measures, reader.read(answer), strict=True)))
                break
            if not calls.is_refused(device, reader.key):
                break  # it failed this time, which an alternative would hide
    return values


def find_unsupported(calls: Calls, device: str, readers: Alternatives) -> set[str]:
    """Return the measures of which a device supports no call."""
    return {
        measure
        for alternatives in readers
        if all(calls.is_refused(device, reader.key) for reader in alternatives)
        for measure in alternatives[0].measures
    }


def _plausible(pairs: Any) -> Mapping[str, float]:
    """Return the values without impossible ones: percentages above 100, and numbers for "unknown"."""
    return {
        name: float(value)
        for name, value in pairs
        if 0 <= value < (100.5 if name.endswith("_percent") else _MOST)
    }
