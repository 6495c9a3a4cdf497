"""Values of a simulated GPU beyond its load: clocks, limits and errors, by the family of its model.

A measure that the model does not support is absent, and `unsupported_measures` lists it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

UNCONTAINED_XIDS: Final = frozenset({48, 63, 64, 94, 95})
"""XID codes of memory errors that were not corrected."""
HOT_C: Final = 92.0
"""Temperature of a throttled card."""
SLOWED: Final = 0.62
"""Share of its highest clock with which a throttled card runs."""
_IDLE_REASON: Final = 0x1
_THERMAL_REASON: Final = 0x40
_IDLE_CLOCK_MHZ: Final = 210


class CardFamily(NamedTuple):
    """Power in W, clocks in MHz, and whether the card tells the use of its engines (NVML's GPM)."""

    idle_w: int
    limit_w: int
    sm_mhz: int
    memory_mhz: int
    engines: bool = False


_FAMILIES: Final = {
    "H100": CardFamily(70, 700, 1980, 2619, engines=True),
    "H200": CardFamily(75, 700, 1980, 3201, engines=True),
    "A100": CardFamily(55, 400, 1410, 1215),
    "L40": CardFamily(35, 350, 2520, 9001),
    "L4": CardFamily(16, 72, 2040, 6251),
    "T4": CardFamily(10, 70, 1590, 5001),
}
_ENGINES: Final = ("sm_active_percent", "tensor_active_percent", "dram_active_percent")


def card_family(model: str) -> CardFamily:
    """Return the family of a model; an A100 for an unknown one."""
    return next((found for name, found in _FAMILIES.items() if name in model), _FAMILIES["A100"])


def unsupported_measures(model: str) -> tuple[str, ...]:
    """Return the measures that a model cannot tell."""
    return () if card_family(model).engines else _ENGINES


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
        "throttle_reasons": float(_THERMAL_REASON if throttled else 0 if load > 0 else _IDLE_REASON),
        "pcie_tx_mib_s": round(900 * load, 1),
        "pcie_rx_mib_s": round(2_400 * load, 1),
        "ecc_corrected": 0.0,
        "ecc_uncorrected": float(xid_code in UNCONTAINED_XIDS),
    }
    if xid_code is not None:
        values["xid"] = float(xid_code)
    if family.engines:
        values |= dict(zip(_ENGINES, (round(share * load, 1) for share in (85, 45, 50)), strict=True))
    return values
