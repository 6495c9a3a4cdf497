"""Values of a simulated GPU beyond its load: clocks, limits and errors, by the family of its model.

A measure that the model does not support is absent, and `unsupported_measures` lists it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

UNCONTAINED_XIDS: Final = frozenset({48, 63, 64, 94, 95})
"""XID codes of uncorrected memory errors."""
HOT_C: Final = 92.0
"""The temperature of a throttled card."""
SLOWED: Final = 0.62
"""The share of its highest clock at which a throttled card runs."""
_IDLE_REASON: Final = 0x1
_THERMAL_REASON: Final = 0x40
_IDLE_CLOCK_MHZ: Final = 210


class CardFamily(NamedTuple):
    """Power in W, clocks in MHz, MiB/s over NVLink at full load, and the measures that the card supports.

    `engines`: the activity of its engines is known (by NVML's GPM, or by DCGM); `encoder`: it encodes video.
    """

    idle_w: int
    limit_w: int
    sm_mhz: int
    memory_mhz: int
    video_mhz: int
    nvlink: int = 0
    engines: bool = False
    encoder: bool = False


_FAMILIES: Final = {
    "H100": CardFamily(70, 700, 1980, 2619, 1545, nvlink=90_000, engines=True),
    "H200": CardFamily(75, 700, 1980, 3201, 1545, nvlink=90_000, engines=True),
    "A100": CardFamily(55, 400, 1410, 1215, 1275, nvlink=60_000, engines=True),
    "L40": CardFamily(35, 350, 2520, 9001, 1965, encoder=True),
    "L4": CardFamily(16, 72, 2040, 6251, 1770, encoder=True),
    "T4": CardFamily(10, 70, 1590, 5001, 1470, encoder=True),
}
_ENGINES: Final = {
    "graphics_active_percent": 96,
    "sm_active_percent": 85,
    "sm_occupancy_percent": 34,
    "tensor_active_percent": 45,
    "fp64_active_percent": 0,
    "fp32_active_percent": 14,
    "fp16_active_percent": 6,
    "dram_active_percent": 50,
}
"""The activity of each engine at full load, in percent."""


def card_family(model: str) -> CardFamily:
    """Return the family of a model; an A100 for an unknown one."""
    return next((found for name, found in _FAMILIES.items() if name in model), _FAMILIES["A100"])


def unsupported_measures(model: str) -> tuple[str, ...]:
    """Return the measures that a model does not support."""
    family = card_family(model)
    names = [] if family.engines else list(_ENGINES)
    names += [] if family.encoder else ["encoder_percent"]
    return (*names, *([] if family.nvlink else ["nvlink_mib_s"]))


def card_values(
    model: str, memory_mib: int, load: float, *, throttled: bool, xid_code: int | None
) -> dict[str, float]:
    """Return further measures of a card whose compute is used to the share `load` (0..1)."""
    family = card_family(model)
    clock = family.sm_mhz if load > 0 else _IDLE_CLOCK_MHZ
    values = {
        "memory_total_mib": float(memory_mib),
        "power_limit_w": float(family.limit_w),
        "memory_copy_percent": round(55 * load, 1),
        "sm_clock_mhz": float(round(clock * (SLOWED if throttled else 1))),
        "memory_clock_mhz": float(family.memory_mhz),
        "video_clock_mhz": float(family.video_mhz if load > 0 else _IDLE_CLOCK_MHZ),
        "app_sm_clock_mhz": float(family.sm_mhz),
        "app_memory_clock_mhz": float(family.memory_mhz),
        "decoder_percent": 0.0,
        "throttle_reasons": float(_THERMAL_REASON if throttled else 0 if load > 0 else _IDLE_REASON),
        "pcie_tx_mib_s": round(900 * load, 1),
        "pcie_rx_mib_s": round(2_400 * load, 1),
        "ecc_corrected": 0.0,
        "ecc_uncorrected": float(xid_code in UNCONTAINED_XIDS),
    }
    if xid_code is not None:
        values["xid"] = float(xid_code)
    if family.engines:
        values |= {name: round(share * load, 1) for name, share in _ENGINES.items()}
    if family.encoder:
        values["encoder_percent"] = 0.0
    if family.nvlink:
        values["nvlink_mib_s"] = round(family.nvlink * load)
    return values
