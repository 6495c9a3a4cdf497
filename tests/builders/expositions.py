"""Texts of exporters, written after their documentation, one for each version with different names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GPU_0: Final = "GPU-11111111-aaaa-4aaa-8aaa-000000000000"
GPU_1: Final = "GPU-11111111-aaaa-4aaa-8aaa-000000000001"
MIG_0: Final = "MIG-22222222-bbbb-4bbb-8bbb-000000000000"


def line(name: str, value: object, **labels: str) -> str:
    """One line of the text format; `from_` and the like lose their last underscore."""
    pairs = ",".join(f'{key.rstrip("_")}="{text}"' for key, text in labels.items())
    return f"{name}{{{pairs}}} {value}" if pairs else f"{name} {value}"


def text(*lines: str) -> str:
    """Lines as an exporter sends them."""
    return "\n".join(lines) + "\n"


def dcgm(
    values: Mapping[str, object], *, gpu: str = GPU_0, host: str = "hostname", **labels: str
) -> list[str]:
    """Lines of dcgm-exporter about one GPU; names without `DCGM_FI_`."""
    common = {"gpu": "0", "UUID": gpu, "pci_bus_id": "00000000:07:00.0", "device": "nvidia0"}
    common |= {"modelName": "NVIDIA A100-SXM4-80GB", host: "gpu-1", "DCGM_FI_DRIVER_VERSION": "580.65.06"}
    return [line(f"DCGM_FI_{name}", value, **common, **labels) for name, value in values.items()]


DCGM_DEFAULT: Final = {
    "DEV_SM_CLOCK": 1410,
    "DEV_MEM_CLOCK": 1593,
    "DEV_MEMORY_TEMP": 61,
    "DEV_GPU_TEMP": 54,
    "DEV_POWER_USAGE": 301.25,
    "DEV_TOTAL_ENERGY_CONSUMPTION": 123456789,
    "DEV_PCIE_REPLAY_COUNTER": 2,
    "DEV_GPU_UTIL": 87,
    "DEV_MEM_COPY_UTIL": 41,
    "DEV_ENC_UTIL": 3,
    "DEV_DEC_UTIL": 5,
    "DEV_XID_ERRORS": 0,
    "DEV_FB_FREE": 60000,
    "DEV_FB_USED": 20480,
    "DEV_FB_RESERVED": 640,
    "DEV_NVLINK_BANDWIDTH_TOTAL": 991,
    "DEV_VGPU_LICENSE_STATUS": 0,
    "DEV_UNCORRECTABLE_REMAPPED_ROWS": 1,
    "DEV_CORRECTABLE_REMAPPED_ROWS": 4,
    "DEV_ROW_REMAP_FAILURE": 0,
    "PROF_GR_ENGINE_ACTIVE": 0.875,
    "PROF_PIPE_TENSOR_ACTIVE": 0.25,
    "PROF_DRAM_ACTIVE": 0.5,
    "PROF_PCIE_TX_BYTES": 3 * 2**20,
    "PROF_PCIE_RX_BYTES": 2**19,
}
DCGM_EXPECTED: Final = {
    "sm_clock_mhz": 1410.0,
    "memory_clock_mhz": 1593.0,
    "memory_temperature_c": 61.0,
    "temperature_c": 54.0,
    "power_w": 301.25,
    "energy_j": 123456.789,
    "pcie_replays": 2.0,
    "utilization_percent": 87.0,
    "memory_copy_percent": 41.0,
    "encoder_percent": 3.0,
    "decoder_percent": 5.0,
    "memory_used_mib": 20480.0,
    "memory_reserved_mib": 640.0,
    "remapped_rows": 5.0,
    "row_remap_failure": 0.0,
    "graphics_active_percent": 87.5,
    "tensor_active_percent": 25.0,
    "dram_active_percent": 50.0,
    "pcie_tx_mib_s": 3.0,
    "pcie_rx_mib_s": 0.5,
}
DCGM_MORE: Final = {
    "DEV_APP_SM_CLOCK": 1275,
    "DEV_APP_MEM_CLOCK": 1215,
    "DEV_VIDEO_CLOCK": 1275,
    "DEV_CLOCKS_EVENT_REASONS": 68,
    "DEV_ROW_REMAP_PENDING": 1,
    "PROF_SM_ACTIVE": 0.9,
    "PROF_SM_OCCUPANCY": 0.3,
    "PROF_PIPE_FP64_ACTIVE": 0.01,
    "PROF_PIPE_FP32_ACTIVE": 0.125,
    "PROF_PIPE_FP16_ACTIVE": 0.0625,
    "PROF_NVLINK_TX_BYTES": 2**21,
    "PROF_NVLINK_RX_BYTES": 3 * 2**20,
}
"""Metrics that dcgm-exporter gives only if its list of counters is extended."""
DCGM_MORE_EXPECTED: Final = {
    "app_sm_clock_mhz": 1275.0,
    "app_memory_clock_mhz": 1215.0,
    "video_clock_mhz": 1275.0,
    "throttle_reasons": 68.0,
    "row_remap_pending": 1.0,
    "sm_active_percent": 90.0,
    "sm_occupancy_percent": 30.0,
    "fp64_active_percent": 1.0,
    "fp32_active_percent": 12.5,
    "fp16_active_percent": 6.25,
    "nvlink_mib_s": 5.0,
}

_CARD: Final = {"node": "gpu-1", "device_uuid": GPU_0, "device_index": "0", "device_type": "NVIDIA-A100"}
_OLD_CARD: Final = {"nodeid": "gpu-1", "deviceuuid": GPU_0, "deviceidx": "0", "devicetype": "NVIDIA-A100"}
_PART: Final = {"namespace": "team-a", "pod": "train-0", "container": "main", "vdevice_index": "0"}
_OLD_PART: Final = {"podnamespace": "team-a", "podname": "train-0", "ctrname": "main", "vdeviceid": "0"}
_ZONE: Final = {"zone": "vGPU"}

HAMI_MONITOR: Final = text(
    line("hami_host_gpu_memory_used_bytes", 6 * 2**30, **_CARD, **_ZONE),
    line("hami_host_gpu_utilization_ratio", 63, **_CARD, **_ZONE),
    line("hami_host_gpu_memory_controller_utilization_ratio", 22, device_uuid=GPU_0, **_ZONE),
    line("hami_vgpu_memory_used_bytes", 3 * 2**30, **_PART, device_uuid=GPU_0, **_ZONE),
    line("hami_vgpu_memory_limit_bytes", 8 * 2**30, **_PART, device_uuid=GPU_0, **_ZONE),
    line("hami_container_device_memory_bytes", 3 * 2**30, **_PART, device_uuid=GPU_0, **_ZONE),
    line("hami_container_device_utilization_ratio", 48, **_PART, device_uuid=GPU_0, **_ZONE),
    line("hami_container_last_kernel_elapsed_seconds", 7, **_PART, device_uuid=GPU_0, **_ZONE),
    line("hami_vgpu_memory_buffer_bytes", 2**30, **_PART, device_uuid=GPU_0, **_ZONE),
)
HAMI_MONITOR_LEGACY: Final = text(
    line("HostGPUMemoryUsage", "6.442450944e+09", deviceidx="0", deviceuuid=GPU_0, **_ZONE),
    line("HostCoreUtilization", 63, deviceidx="0", deviceuuid=GPU_0, **_ZONE),
    line("vGPU_device_memory_usage_in_bytes", "3.221225472e+09", **_OLD_PART, deviceuuid=GPU_0, **_ZONE),
    line("vGPU_device_memory_limit_in_bytes", "8.589934592e+09", **_OLD_PART, deviceuuid=GPU_0, **_ZONE),
    line("Device_memory_desc_of_container", 1, **_OLD_PART, deviceuuid=GPU_0, context="0", module="0"),
    line("Device_utilization_desc_of_container", 48, **_OLD_PART, deviceuuid=GPU_0, **_ZONE),
    line("Device_last_kernel_of_container", 7, **_OLD_PART, deviceuuid=GPU_0, **_ZONE),
)
MONITOR_DEVICE: Final = {"memory_used_mib": 6144.0, "utilization_percent": 63.0}
MONITOR_SLICE: Final = {
    "memory_used_mib": 3072.0,
    "memory_limit_mib": 8192.0,
    "utilization_percent": 48.0,
    "idle_s": 7.0,
}

_HELD: Final = {"namespace": "team-a", "node": "gpu-1", "pod": "train-0", "container_index": "0"}
_OLD_HELD: Final = {"podnamespace": "team-a", "nodename": "gpu-1", "podname": "train-0", "containeridx": "0"}
HAMI_SCHEDULER: Final = text(
    line("hami_gpu_memory_limit_bytes", 160 * 2**30, **_CARD, **_ZONE),
    line("hami_gpu_core_limit_ratio", 200, **_CARD, **_ZONE),
    line("hami_gpu_shared_count", 2, **_CARD, **_ZONE),
    line("hami_gpu_core_allocated_ratio", 130, **_CARD, **_ZONE),
    line("hami_gpu_memory_allocated_bytes", 40 * 2**30, **_CARD, device_cores="130", **_ZONE),
    line("hami_node_gpu_overview", 40 * 2**30, **_CARD, device_cores="130", **_ZONE),
    line("hami_node_gpu_memory_allocated_ratio", 0.25, **_CARD, **_ZONE),
    line("hami_resource_quota_used", 5, namespace="team-a", quota_name="nvidia.com/gpu", limit="8", **_ZONE),
    line("hami_vgpu_memory_allocated_bytes", 8 * 2**30, **_HELD, device_uuid=GPU_0, **_ZONE),
    line("hami_vgpu_core_allocated_ratio", 30, **_HELD, device_uuid=GPU_0, **_ZONE),
)
HAMI_SCHEDULER_LEGACY: Final = text(
    line("GPUDeviceMemoryLimit", 160 * 2**30, **_OLD_CARD, **_ZONE),
    line("GPUDeviceCoreLimit", 200, **_OLD_CARD, **_ZONE),
    line("GPUDeviceSharedNum", 2, **_OLD_CARD, **_ZONE),
    line("GPUDeviceCoreAllocated", 130, **_OLD_CARD, **_ZONE),
    line("GPUDeviceMemoryAllocated", 40 * 2**30, **_OLD_CARD, devicecores="130", **_ZONE),
    line("nodeGPUOverview", 40 * 2**30, **_OLD_CARD, **_ZONE),
    line("nodeGPUMemoryPercentage", 0.25, **_OLD_CARD, **_ZONE),
    line("vGPUMemoryAllocated", 8 * 2**30, **_OLD_HELD, deviceuuid=GPU_0, **_ZONE),
    line("vGPUCoreAllocated", 30, **_OLD_HELD, deviceuuid=GPU_0, **_ZONE),
)
HAMI_SCHEDULER_2_7: Final = text(
    line("vGPUPodsDeviceAllocated", 8 * 2**30, **_OLD_HELD, deviceuuid=GPU_0, **_ZONE),
    line("vGPUCorePercentage", 30, **_OLD_HELD, deviceuuid=GPU_0, **_ZONE),
    line("vGPUMemoryPercentage", 0.1, **_OLD_HELD, deviceuuid=GPU_0, **_ZONE),
)
SCHEDULER_DEVICE: Final = {
    "memory_allocated_mib": 40960.0,
    "cores_allocated_percent": 130.0,
    "sharing_containers": 2.0,
    "memory_allocated_percent": 25.0,
}
SCHEDULER_SLICE: Final = {"memory_allocated_mib": 8192.0, "cores_allocated_percent": 30.0}

_VOLCANO: Final = {"devID": GPU_0, "NodeName": "gpu-1"}
VOLCANO_SCHEDULER: Final = text(
    line("volcano_vgpu_device_shared_number", 2, **_VOLCANO),
    line("volcano_vgpu_device_memory_limit", 81920, **_VOLCANO),
    line("volcano_vgpu_device_allocated_memory", 32768, **_VOLCANO),
    line("volcano_vgpu_device_allocated_cores", 70, **_VOLCANO),
    line("volcano_vgpu_device_memory_allocation_for_a_certain_pod", 16384, **_VOLCANO, podName="train-0"),
    line("volcano_vgpu_device_core_allocation_for_a_certain_pod", 35, **_VOLCANO, podName="train-0"),
)
