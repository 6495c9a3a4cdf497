"""The measures of a GPU as text."""

from __future__ import annotations

from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

_LABELS: Final[dict[str, str | Promise]] = {
    "utilization_percent": _("GPU utilization"),
    "memory_used_mib": _("GPU memory used"),
    "memory_total_mib": _("GPU memory, total"),
    "memory_reserved_mib": _("GPU memory, reserved by the driver"),
    "memory_copy_percent": _("Memory copy"),
    "encoder_percent": _("Encoder"),
    "decoder_percent": _("Decoder"),
    "temperature_c": _("Temperature"),
    "memory_temperature_c": _("GPU memory temperature"),
    "power_w": _("Power"),
    "power_limit_w": _("Power limit"),
    "energy_j": _("Energy"),
    "sm_clock_mhz": _("SM clock"),
    "memory_clock_mhz": _("GPU memory clock"),
    "throttle_reasons": _("Reasons for lower clocks"),
    "ecc_corrected": _("ECC corrected"),
    "ecc_uncorrected": _("ECC uncorrected"),
    "remapped_rows": _("Remapped rows"),
    "row_remap_pending": _("Row remapping pending"),
    "row_remap_failure": _("Row remapping failed"),
    "xid": _("Last XID"),
    "xid_errors": _("XID errors"),
    "pcie_tx_mib_s": _("PCIe sent"),
    "pcie_rx_mib_s": _("PCIe received"),
    "pcie_replays": _("PCIe replays"),
    "nvlink_errors": _("NVLink errors"),
    "nvlink_mib_s": _("NVLink"),
    "graphics_active_percent": _("Graphics engine"),
    "sm_active_percent": _("SM active"),
    "sm_occupancy_percent": _("SM occupancy"),
    "tensor_active_percent": _("Tensor cores"),
    "dram_active_percent": _("Memory bandwidth"),
    "memory_allocated_mib": _("GPU memory allocated"),
    "memory_allocated_percent": _("GPU memory allocated, share"),
    "cores_allocated_percent": _("Compute allocated"),
    "sharing_containers": _("Containers on this GPU"),
    "fp64_active_percent": _("FP64 cores"),
    "fp32_active_percent": _("FP32 cores"),
    "fp16_active_percent": _("FP16 cores"),
    "app_sm_clock_mhz": _("SM clock, set"),
    "app_memory_clock_mhz": _("GPU memory clock, set"),
    "video_clock_mhz": _("Video engine clock"),
}


def format_measure(name: str) -> str:
    """Return the label of a measure of devices."""
    return str(_LABELS[name])
