"""The mapping of exporters' metrics to measures: the one place that knows their names, labels and units.

A new exporter is one more `Exporter` in `EXPORTERS`. Names and units are those of dcgm-exporter 4.5, HAMi 2.4
to 2.10 and Volcano 1.12. A metric with two names (of two versions) is read by the name that comes first here.
Undeclared metrics are ignored, deliberately `hami_gpu_memory_limit_bytes` and similar ones, which give the
size after HAMi's scaling and not the physical memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from clusters.gpu.measures import BY_NAME, GpuMeasure, Level, MeasureKind

_MIB: Final = 2**20
_THOUSAND: Final = 1000


class MeasureOrigin(StrEnum):
    """The program that measured a value, in order of precedence: the first with fresh values wins."""

    AGENT = "agent"
    DCGM = "dcgm"
    HAMI_MONITOR = "hami-monitor"
    HAMI_SCHEDULER = "hami-scheduler"
    VOLCANO_MONITOR = "volcano-monitor"
    VOLCANO_SCHEDULER = "volcano-scheduler"


PRECEDENCE: Final = {origin: rank for rank, origin in enumerate(MeasureOrigin)}


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its value times `multiply`, divided by `divide`, is the measure in the catalogue's unit.

    `summed`: the measure is the sum of all metrics of the exporter that are declared as its parts.
    `zero_is_absent`: the exporter writes 0 for unknown. `adds_up`: it is a sum over processes and may exceed
    the whole, to which it is limited. `per_process`: for a GPU with several pods it may have a value for each
    pod.
    """

    name: str
    measure: str
    level: Level = Level.DEVICE
    multiply: int = 1
    divide: int = 1
    summed: bool = False
    zero_is_absent: bool = False
    adds_up: bool = False
    per_process: bool = False


@dataclass(frozen=True, slots=True)
class ExporterLabels:
    """Names of labels, the first that is set counts; an empty tuple if an exporter has no such label.

    Prometheus renames a label that collides with one of its own target to `exported_…`, so that name is
    first.
    """

    device: tuple[str, ...]
    node: tuple[str, ...] = ()
    namespace: tuple[str, ...] = ("exported_namespace", "namespace", "podnamespace")
    pod: tuple[str, ...] = ("exported_pod", "pod", "podname")
    pod_uid: tuple[str, ...] = ()
    container: tuple[str, ...] = ("exported_container", "container", "ctrname")
    container_index: tuple[str, ...] = ()
    instance: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exporter:
    """The metrics of one exporter, in all its versions.

    `xid` is the metric of the last XID code. `instances` are metrics whose labels name MIG instances.
    `pods_of_devices`: values of GPUs carry the pod that holds the GPU. `idle_until_seen`: a container has no
    series until it first uses CUDA. `blanks` are numbers that mean "unknown".
    """

    origin: MeasureOrigin
    metrics: tuple[Metric, ...]
    labels: ExporterLabels
    xid: str = ""
    instances: tuple[str, ...] = ()
    pods_of_devices: bool = False
    idle_until_seen: bool = False
    blanks: frozenset[int] = frozenset()


_DEV: Final = "DCGM_FI_DEV_"
_PROF: Final = "DCGM_FI_PROF_"

_DCGM: Final = Exporter(
    MeasureOrigin.DCGM,
    (
        Metric(f"{_DEV}GPU_UTIL", "utilization_percent", per_process=True),
        Metric(f"{_DEV}FB_USED", "memory_used_mib", per_process=True),
        Metric(f"{_DEV}FB_TOTAL", "memory_total_mib"),
        Metric(f"{_DEV}FB_RESERVED", "memory_reserved_mib"),
        Metric(f"{_DEV}MEM_COPY_UTIL", "memory_copy_percent"),
        Metric(f"{_DEV}ENC_UTIL", "encoder_percent"),
        Metric(f"{_DEV}DEC_UTIL", "decoder_percent"),
        Metric(f"{_DEV}GPU_TEMP", "temperature_c", zero_is_absent=True),
        Metric(f"{_DEV}MEMORY_TEMP", "memory_temperature_c", zero_is_absent=True),
        Metric(f"{_DEV}POWER_USAGE", "power_w", zero_is_absent=True),
        Metric(f"{_DEV}ENFORCED_POWER_LIMIT", "power_limit_w", zero_is_absent=True),
        Metric(f"{_DEV}POWER_MGMT_LIMIT", "power_limit_w", zero_is_absent=True),
        Metric(f"{_DEV}TOTAL_ENERGY_CONSUMPTION", "energy_j", divide=_THOUSAND),
        Metric(f"{_DEV}SM_CLOCK", "sm_clock_mhz"),
        Metric(f"{_DEV}MEM_CLOCK", "memory_clock_mhz"),
        Metric(f"{_DEV}APP_SM_CLOCK", "app_sm_clock_mhz"),
        Metric(f"{_DEV}APP_MEM_CLOCK", "app_memory_clock_mhz"),
        Metric(f"{_DEV}VIDEO_CLOCK", "video_clock_mhz"),
        Metric(f"{_DEV}CLOCKS_EVENT_REASONS", "throttle_reasons"),
        Metric(f"{_DEV}CLOCK_THROTTLE_REASONS", "throttle_reasons"),
        Metric(f"{_DEV}ECC_SBE_AGG_TOTAL", "ecc_corrected"),
        Metric(f"{_DEV}ECC_DBE_AGG_TOTAL", "ecc_uncorrected"),
        Metric(f"{_DEV}CORRECTABLE_REMAPPED_ROWS", "remapped_rows", summed=True),
        Metric(f"{_DEV}UNCORRECTABLE_REMAPPED_ROWS", "remapped_rows", summed=True),
        Metric(f"{_DEV}ROW_REMAP_PENDING", "row_remap_pending"),
        Metric(f"{_DEV}ROW_REMAP_FAILURE", "row_remap_failure"),
        Metric(f"{_DEV}PCIE_REPLAY_COUNTER", "pcie_replays"),
        Metric(f"{_DEV}NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "nvlink_errors", summed=True),
        Metric(f"{_DEV}NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "nvlink_errors", summed=True),
        Metric(f"{_DEV}NVLINK_REPLAY_ERROR_COUNT_TOTAL", "nvlink_errors", summed=True),
        Metric(f"{_DEV}NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "nvlink_errors", summed=True),
        Metric(f"{_PROF}GR_ENGINE_ACTIVE", "graphics_active_percent", multiply=100),
        Metric(f"{_PROF}SM_ACTIVE", "sm_active_percent", multiply=100),
        Metric(f"{_PROF}SM_OCCUPANCY", "sm_occupancy_percent", multiply=100),
        Metric(f"{_PROF}PIPE_TENSOR_ACTIVE", "tensor_active_percent", multiply=100),
        Metric(f"{_PROF}PIPE_FP64_ACTIVE", "fp64_active_percent", multiply=100),
        Metric(f"{_PROF}PIPE_FP32_ACTIVE", "fp32_active_percent", multiply=100),
        Metric(f"{_PROF}PIPE_FP16_ACTIVE", "fp16_active_percent", multiply=100),
        Metric(f"{_PROF}DRAM_ACTIVE", "dram_active_percent", multiply=100),
        # Gauges in bytes per second, despite their names.
        Metric(f"{_PROF}PCIE_TX_BYTES", "pcie_tx_mib_s", divide=_MIB),
        Metric(f"{_PROF}PCIE_RX_BYTES", "pcie_rx_mib_s", divide=_MIB),
        Metric(f"{_PROF}NVLINK_TX_BYTES", "nvlink_mib_s", divide=_MIB, summed=True),
        Metric(f"{_PROF}NVLINK_RX_BYTES", "nvlink_mib_s", divide=_MIB, summed=True),
    ),
    ExporterLabels(
        device=("UUID",), node=("Hostname", "hostname"), pod_uid=("pod_uid",), instance=("GPU_I_ID",)
    ),
    xid=f"{_DEV}XID_ERRORS",
    pods_of_devices=True,
    # Values for "not found", "not supported" and "not permitted" in 32-bit, 64-bit and floating-point fields.
    blanks=frozenset(first + step for first in (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 2**47) for step in range(4)),
)

_SLICE: Final = Level.SLICE
_HAMI_DEVICE: Final = ("device_uuid", "deviceuuid")
_HAMI_NODE: Final = ("exported_node", "node", "nodeid", "nodename")

_MONITOR_LEGACY: Final = (
    Metric("HostGPUMemoryUsage", "memory_used_mib", divide=_MIB),
    Metric("HostCoreUtilization", "utilization_percent"),
    Metric("vGPU_device_memory_usage_in_bytes", "memory_used_mib", _SLICE, divide=_MIB),
    Metric("vGPU_device_memory_limit_in_bytes", "memory_limit_mib", _SLICE, divide=_MIB),
    Metric("Device_utilization_desc_of_container", "utilization_percent", _SLICE, adds_up=True),
    Metric("Device_last_kernel_of_container", "idle_s", _SLICE),
)

_HAMI_MONITOR: Final = Exporter(
    MeasureOrigin.HAMI_MONITOR,
    (
        Metric("hami_host_gpu_memory_used_bytes", "memory_used_mib", divide=_MIB),
        # Named ratios, but they range from 0 to 100.
        Metric("hami_host_gpu_utilization_ratio", "utilization_percent"),
        Metric("hami_host_gpu_memory_controller_utilization_ratio", "memory_copy_percent"),
        Metric("hami_vgpu_memory_used_bytes", "memory_used_mib", _SLICE, divide=_MIB),
        Metric("hami_vgpu_memory_limit_bytes", "memory_limit_mib", _SLICE, divide=_MIB),
        Metric("hami_container_device_utilization_ratio", "utilization_percent", _SLICE, adds_up=True),
        Metric("hami_container_last_kernel_elapsed_seconds", "idle_s", _SLICE),
        *_MONITOR_LEGACY,
    ),
    ExporterLabels(device=_HAMI_DEVICE, node=_HAMI_NODE),
    instances=("hami_mig_device_info", "MigInfo"),
    idle_until_seen=True,
)

_HAMI_SCHEDULER: Final = Exporter(
    MeasureOrigin.HAMI_SCHEDULER,
    (
        Metric("hami_gpu_memory_allocated_bytes", "memory_allocated_mib", divide=_MIB),
        Metric("hami_gpu_core_allocated_ratio", "cores_allocated_percent"),
        Metric("hami_gpu_shared_count", "sharing_containers"),
        # The only ratio of HAMi that ranges from 0 to 1.
        Metric("hami_node_gpu_memory_allocated_ratio", "memory_allocated_percent", multiply=100),
        Metric("hami_vgpu_memory_allocated_bytes", "memory_allocated_mib", _SLICE, divide=_MIB),
        Metric("hami_vgpu_core_allocated_ratio", "cores_allocated_percent", _SLICE),
        Metric("GPUDeviceMemoryAllocated", "memory_allocated_mib", divide=_MIB),
        Metric("GPUDeviceCoreAllocated", "cores_allocated_percent"),
        Metric("GPUDeviceSharedNum", "sharing_containers"),
        Metric("nodeGPUMemoryPercentage", "memory_allocated_percent", multiply=100),
        Metric("vGPUMemoryAllocated", "memory_allocated_mib", _SLICE, divide=_MIB),
        Metric("vGPUCoreAllocated", "cores_allocated_percent", _SLICE),
        # Up to 2.7. Despite "percentage", all three are what was allocated, not what is used.
        Metric("vGPUPodsDeviceAllocated", "memory_allocated_mib", _SLICE, divide=_MIB),
        Metric("vGPUCorePercentage", "cores_allocated_percent", _SLICE),
        Metric("vGPUMemoryPercentage", "memory_allocated_percent", _SLICE, multiply=100),
    ),
    ExporterLabels(
        device=_HAMI_DEVICE,
        node=_HAMI_NODE,
        container=(),
        container_index=("container_index", "containeridx"),
    ),
    instances=("hami_node_gpu_mig_instance_info", "nodeGPUMigInstance"),
)

_VOLCANO_MONITOR: Final = Exporter(
    MeasureOrigin.VOLCANO_MONITOR,
    _MONITOR_LEGACY,
    ExporterLabels(device=_HAMI_DEVICE, node=_HAMI_NODE),
    idle_until_seen=True,
)

_VGPU: Final = "volcano_vgpu_device_"

_VOLCANO_SCHEDULER: Final = Exporter(
    MeasureOrigin.VOLCANO_SCHEDULER,
    (
        Metric(f"{_VGPU}allocated_memory", "memory_allocated_mib"),
        Metric(f"{_VGPU}allocated_cores", "cores_allocated_percent"),
        Metric(f"{_VGPU}shared_number", "sharing_containers"),
        Metric(f"{_VGPU}memory_allocation_for_a_certain_pod", "memory_allocated_mib", _SLICE),
        Metric(f"{_VGPU}core_allocation_for_a_certain_pod", "cores_allocated_percent", _SLICE),
    ),
    ExporterLabels(device=("devID",), node=("NodeName",), namespace=(), pod=("podName",), container=()),
)

EXPORTERS: Final = {
    exporter.origin: exporter
    for exporter in (_DCGM, _HAMI_MONITOR, _HAMI_SCHEDULER, _VOLCANO_MONITOR, _VOLCANO_SCHEDULER)
}


def metric_names(exporter: Exporter) -> tuple[str, ...]:
    """Return every metric that is read from an exporter, in the order of its declarations."""
    names = [metric.name for metric in exporter.metrics] + [exporter.xid, *exporter.instances]
    return tuple(dict.fromkeys(name for name in names if name))


_MOST: Final = {
    "%": 100.0,
    "MiB": 2.0**24,
    "MiB/s": 2.0**24,
    "°C": 250.0,
    "W": 100_000.0,
    "J": 2.0**53,
    "MHz": 1_000_000.0,
    "s": 2.0**32,
    "": 2.0**53,
}


# Compute may be scaled up.
_MOST_OF: Final = {"cores_allocated_percent": 100_000.0}


def most_of(measure: GpuMeasure) -> float:
    """Return the greatest possible value of a measure; a sample beyond it is refused."""
    return _MOST_OF.get(measure.name, _MOST[measure.unit])


def is_whole(measure: GpuMeasure) -> bool:
    """Return whether only whole numbers are possible: codes, masks and counts."""
    return measure.kind is MeasureKind.STATE


def measure_of(metric: Metric) -> GpuMeasure:
    """Return the measure to which a metric is mapped."""
    return BY_NAME[metric.measure]
