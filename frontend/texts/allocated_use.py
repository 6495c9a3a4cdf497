"""The use of an allocated amount as text: a sum of readings is a lower bound if a part sends none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _

from foundation.core.quantities import Resource
from frontend.texts import formats
from telemetry.series import PoolUse

MEASURED: Final = (Resource.GPU_CORES, Resource.GPU_MEMORY)
"""The resources that readings contain."""


@dataclass(frozen=True, slots=True)
class AllocatedUse:
    """The use of an allocated amount: `used` is measured on the part `measured` of it."""

    used: float
    measured: int
    allocated: int

    @property
    def is_partial(self) -> bool:
        """Return whether the use is a lower bound, because a part sent no reading."""
        return self.measured < self.allocated


def format_used(use: AllocatedUse | None, format_amount: Callable[[int], str]) -> str:
    """Return the use as text: a lower bound if a part sends no reading, a dash if none is known."""
    if use is None:
        return formats.MISSING
    return f"≥ {format_amount(round(use.used))}" if use.is_partial else format_amount(round(use.used))


def build_use(found: PoolUse | None, resource: Resource, allocated: int) -> AllocatedUse | None:
    """Return the use of an allocated amount in the resource's unit; None without readings."""
    if found is None:
        return None if allocated else AllocatedUse(0.0, 0, 0)
    if resource is Resource.GPU_CORES:
        return AllocatedUse(found.cores_used, found.cores_allocated, allocated)
    return AllocatedUse(float(found.memory_used_mib), found.memory_allocated_mib, allocated)


def explain_use(
    use: AllocatedUse | None,
    resource: Resource,
    format_amount: Callable[[int], str],
    *,
    sees_jobs: bool = True,
) -> str:
    """Return why the use is unknown or known only in part; empty if it is known."""
    if use is None and resource not in MEASURED:
        return _("Only compute and GPU memory are measured")
    if use is None:
        return _("No data in the last 30 s") if sees_jobs else _("You can't view these jobs")
    if not use.is_partial:
        return ""
    words = {"measured": format_amount(use.measured), "allocated": format_amount(use.allocated)}
    return _("Measured on %(measured)s of %(allocated)s allocated") % words
