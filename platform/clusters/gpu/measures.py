"""The catalogue of GPU measures: one name, unit and kind for each measure, whatever its source.

The node agent, the readers of other exporters and the stores use these names and no others. Values are
floats in the unit given here. A measure that a source does not know is absent, never 0.
New measures are appended: stored values name a measure by its index in `MEASURES`. Sources: NVML's calls
(`nvml`) and the exporters named in docs/telemetry.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Level(StrEnum):
    """The subject of one sample."""

    DEVICE = "device"
    """A physical GPU, or one MIG instance of it."""
    SLICE = "slice"
    """The use of one GPU, or of all of it, by one container of one pod."""
    PROCESS = "process"
    """One process on one GPU."""


class MeasureKind(StrEnum):
    """The way in which values of one measure are combined over time."""

    GAUGE = "gauge"
    """Minimum, mean, maximum and last value are all meaningful."""
    COUNTER = "counter"
    """Grows until its device is reset; only the last value and the increase are meaningful."""
    STATE = "state"
    """A bit mask or code: the last value, and the bits that were seen."""


@dataclass(frozen=True, slots=True)
class GpuMeasure:
    """One measure: `prometheus` is the name under which the agent exposes it, in base units.

    `factor` turns the unit of `name` into the base unit of `prometheus`.
    """

    name: str
    unit: str
    prometheus: str
    help: str
    kind: MeasureKind = MeasureKind.GAUGE
    factor: float = 1.0
    levels: tuple[Level, ...] = (Level.DEVICE,)

    def prometheus_name(self, level: Level) -> str:
        """Return the series name of one level; no sum over one name counts both a GPU and its slices."""
        if level is Level.DEVICE or self.levels == (level,):
            return self.prometheus
        return self.prometheus.replace("allotment_gpu_", f"allotment_gpu_{level.value}_", 1)


_MIB: Final = 2.0**20
_ALL: Final = (Level.DEVICE, Level.SLICE, Level.PROCESS)
_SLICE: Final = (Level.SLICE,)

MEASURES: Final = (
    GpuMeasure(
        "utilization_percent",
        "%",
        "allotment_gpu_utilization_ratio",
        "Part of the time in which a kernel ran.",
        factor=0.01,
        levels=_ALL,
    ),
    GpuMeasure(
        "memory_used_mib",
        "MiB",
        "allotment_gpu_memory_used_bytes",
        "Memory in use.",
        factor=_MIB,
        levels=_ALL,
    ),
    GpuMeasure(
        "memory_total_mib", "MiB", "allotment_gpu_memory_total_bytes", "Memory of the device.", factor=_MIB
    ),
    GpuMeasure(
        "memory_reserved_mib",
        "MiB",
        "allotment_gpu_memory_reserved_bytes",
        "Memory that the driver keeps for itself.",
        factor=_MIB,
    ),
    GpuMeasure(
        "memory_limit_mib",
        "MiB",
        "allotment_gpu_memory_limit_bytes",
        "Memory that the container may use at most.",
        factor=_MIB,
        levels=_SLICE,
    ),
    GpuMeasure(
        "idle_s",
        "s",
        "allotment_gpu_last_kernel_elapsed_seconds",
        "Time since the last kernel.",
        levels=_SLICE,
    ),
    GpuMeasure(
        "memory_copy_percent",
        "%",
        "allotment_gpu_memory_copy_utilization_ratio",
        "Part of the time in which memory was read or written.",
        factor=0.01,
    ),
    GpuMeasure(
        "encoder_percent",
        "%",
        "allotment_gpu_encoder_utilization_ratio",
        "Use of the video encoder.",
        factor=0.01,
        levels=(Level.DEVICE, Level.PROCESS),
    ),
    GpuMeasure(
        "decoder_percent",
        "%",
        "allotment_gpu_decoder_utilization_ratio",
        "Use of the video decoder.",
        factor=0.01,
        levels=(Level.DEVICE, Level.PROCESS),
    ),
    GpuMeasure("temperature_c", "°C", "allotment_gpu_temperature_celsius", "Temperature of the GPU."),
    GpuMeasure(
        "memory_temperature_c", "°C", "allotment_gpu_memory_temperature_celsius", "Temperature of the memory."
    ),
    GpuMeasure("power_w", "W", "allotment_gpu_power_watts", "Power drawn."),
    GpuMeasure("power_limit_w", "W", "allotment_gpu_power_limit_watts", "Power limit that is enforced."),
    GpuMeasure(
        "energy_j",
        "J",
        "allotment_gpu_energy_joules_total",
        "Energy used since the driver was loaded.",
        MeasureKind.COUNTER,
    ),
    GpuMeasure("sm_clock_mhz", "MHz", "allotment_gpu_sm_clock_hertz", "Clock of the SMs.", factor=1e6),
    GpuMeasure(
        "memory_clock_mhz", "MHz", "allotment_gpu_memory_clock_hertz", "Clock of the memory.", factor=1e6
    ),
    GpuMeasure(
        "throttle_reasons",
        "",
        "allotment_gpu_clocks_event_reasons",
        "Bit mask of reasons for lower clocks, as NVML defines it.",
        MeasureKind.STATE,
    ),
    GpuMeasure(
        "ecc_corrected",
        "",
        "allotment_gpu_ecc_corrected_errors_total",
        "Memory errors that were corrected, since the GPU was made.",
        MeasureKind.COUNTER,
    ),
    GpuMeasure(
        "ecc_uncorrected",
        "",
        "allotment_gpu_ecc_uncorrected_errors_total",
        "Memory errors that were not corrected, since the GPU was made.",
        MeasureKind.COUNTER,
    ),
    GpuMeasure(
        "remapped_rows",
        "",
        "allotment_gpu_remapped_rows_total",
        "Memory rows replaced by spare ones.",
        MeasureKind.COUNTER,
    ),
    GpuMeasure(
        "row_remap_pending",
        "",
        "allotment_gpu_row_remap_pending",
        "1 if memory rows are replaced at the next reset.",
        MeasureKind.STATE,
    ),
    GpuMeasure(
        "row_remap_failure",
        "",
        "allotment_gpu_row_remap_failure",
        "1 if a memory row could not be replaced.",
        MeasureKind.STATE,
    ),
    GpuMeasure(
        "xid",
        "",
        "allotment_gpu_last_xid_code",
        "Code of the last XID error; absent if there was none.",
        MeasureKind.STATE,
    ),
    GpuMeasure(
        "xid_errors",
        "",
        "allotment_gpu_xid_errors_total",
        "XID errors since the agent started.",
        MeasureKind.COUNTER,
    ),
    GpuMeasure(
        "pcie_tx_mib_s",
        "MiB/s",
        "allotment_gpu_pcie_transmit_bytes_per_second",
        "Sent over PCIe.",
        factor=_MIB,
    ),
    GpuMeasure(
        "pcie_rx_mib_s",
        "MiB/s",
        "allotment_gpu_pcie_receive_bytes_per_second",
        "Received over PCIe.",
        factor=_MIB,
    ),
    GpuMeasure(
        "pcie_replays",
        "",
        "allotment_gpu_pcie_replays_total",
        "PCIe packets that were sent again.",
        MeasureKind.COUNTER,
    ),
    GpuMeasure(
        "nvlink_errors",
        "",
        "allotment_gpu_nvlink_errors_total",
        "NVLink errors of all links.",
        MeasureKind.COUNTER,
    ),
    GpuMeasure(
        "nvlink_mib_s",
        "MiB/s",
        "allotment_gpu_nvlink_bytes_per_second",
        "Sent and received over NVLink.",
        factor=_MIB,
    ),
    GpuMeasure(
        "graphics_active_percent",
        "%",
        "allotment_gpu_graphics_engine_active_ratio",
        "Part of the time in which the engine was active; the utilization of MIG instances.",
        factor=0.01,
    ),
    GpuMeasure(
        "sm_active_percent",
        "%",
        "allotment_gpu_sm_active_ratio",
        "SMs with at least one warp, as a part of all.",
        factor=0.01,
    ),
    GpuMeasure(
        "sm_occupancy_percent",
        "%",
        "allotment_gpu_sm_occupancy_ratio",
        "Resident warps, as a part of the largest number.",
        factor=0.01,
    ),
    GpuMeasure(
        "tensor_active_percent",
        "%",
        "allotment_gpu_tensor_active_ratio",
        "Part of the time in which tensor cores were active.",
        factor=0.01,
    ),
    GpuMeasure(
        "dram_active_percent",
        "%",
        "allotment_gpu_dram_active_ratio",
        "Part of the time in which memory moved data.",
        factor=0.01,
    ),
    GpuMeasure(
        "memory_allocated_mib",
        "MiB",
        "allotment_gpu_memory_allocated_bytes",
        "Memory that the scheduler of the cluster has allocated; not what is used.",
        factor=_MIB,
        levels=(Level.DEVICE, Level.SLICE),
    ),
    GpuMeasure(
        "memory_allocated_percent",
        "%",
        "allotment_gpu_memory_allocated_ratio",
        "Allocated memory, as a part of what the scheduler of the cluster may allocate.",
        factor=0.01,
        levels=(Level.DEVICE, Level.SLICE),
    ),
    GpuMeasure(
        "cores_allocated_percent",
        "%",
        "allotment_gpu_cores_allocated_ratio",
        "Compute that the scheduler of the cluster has allocated; not what is used.",
        factor=0.01,
        levels=(Level.DEVICE, Level.SLICE),
    ),
    GpuMeasure(
        "sharing_containers",
        "",
        "allotment_gpu_sharing_containers",
        "Containers to which the scheduler of the cluster has allocated a part.",
    ),
    GpuMeasure(
        "memory_enforced_mib",
        "MiB",
        "allotment_gpu_memory_enforced_bytes",
        "Memory limit in force in the container; it differs from the limit if the container changed it.",
        factor=_MIB,
        levels=_SLICE,
    ),
    GpuMeasure(
        "fp64_active_percent",
        "%",
        "allotment_gpu_fp64_active_ratio",
        "Part of the time in which FP64 cores were active; tensor cores do not count.",
        factor=0.01,
    ),
    GpuMeasure(
        "fp32_active_percent",
        "%",
        "allotment_gpu_fp32_active_ratio",
        "Part of the time in which FP32 cores were active; tensor cores do not count.",
        factor=0.01,
    ),
    GpuMeasure(
        "fp16_active_percent",
        "%",
        "allotment_gpu_fp16_active_ratio",
        "Part of the time in which FP16 cores were active; tensor cores do not count.",
        factor=0.01,
    ),
    GpuMeasure(
        "app_sm_clock_mhz",
        "MHz",
        "allotment_gpu_app_sm_clock_hertz",
        "Clock of the SMs that is set for applications.",
        factor=1e6,
    ),
    GpuMeasure(
        "app_memory_clock_mhz",
        "MHz",
        "allotment_gpu_app_memory_clock_hertz",
        "Clock of the memory that is set for applications.",
        factor=1e6,
    ),
    GpuMeasure(
        "video_clock_mhz",
        "MHz",
        "allotment_gpu_video_clock_hertz",
        "Clock of the video engines.",
        factor=1e6,
    ),
)

BY_NAME: Final = {measure.name: measure for measure in MEASURES}
