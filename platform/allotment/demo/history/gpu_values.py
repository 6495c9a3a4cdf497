"""The measures of the simulated week's GPUs beyond use, memory, temperature and power, packed as
roll-ups or as readings.

They follow from the load as those of the running simulation do. Loads are rounded to whole percent, so that
most rows are packed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from allotment.demo.history.measured import Floats, GpuMatrix
from clusters.backends.simulated.card_values import card_values, unsupported_measures
from telemetry.store.packing import first_stat, pack_stats, pack_values

_OF_GROUPS = ("memory_copy_percent", "dram_active_percent")


def pack_gpu(
    matrix: GpuMatrix, row: int, temperature: Floats, power: Floats, *, rolled: bool
) -> list[bytes | None]:
    """Return the measures of one GPU for each interval, as a roll-up or as a reading has them."""
    device, step_ms = matrix.devices[row], matrix.grid.step_ms
    columns = (matrix.cores_used[row], temperature[row], power[row])
    loads, heats, watts = (np.rint(column).astype(int).tolist() for column in columns)
    return [
        _pack_gpu(device.model, device.memory_mib, load, heat, watt, step_ms if rolled else None)
        for load, heat, watt in zip(loads, heats, watts, strict=True)
    ]


def pack_group(matrix: GpuMatrix, rows: Sequence[int]) -> list[bytes | None]:
    """Return the charted measures of the GPUs of a node or a cluster: means over GPUs that support them."""
    means = []
    for measure in _OF_GROUPS:
        known = [row for row in rows if measure not in unsupported_measures(matrix.devices[row].model)]
        loads = np.rint(matrix.cores_used[known].mean(0)).astype(int).tolist() if known else []
        means.append((measure, matrix.devices[known[0]].model if known else "", loads, len(known)))
    packed = []
    for place in range(len(matrix.grid)):
        stats = {
            measure: first_stat(measure, _at_load(model, loads[place])[measure], count * matrix.grid.step_ms)
            for measure, model, loads, count in means
            if count
        }
        packed.append(pack_stats(stats))
    return packed


@lru_cache(maxsize=30_000)
def _pack_gpu(
    model: str, memory_mib: int, load: int, heat: int, watt: int, step_ms: int | None
) -> bytes | None:
    values = card_values(model, memory_mib, load / 100, throttled=False, xid_code=None)
    if step_ms is None:
        return pack_values(values)  # the others have columns of their own
    values |= {"utilization_percent": float(load), "temperature_c": float(heat), "power_w": float(watt)}
    return pack_stats({name: first_stat(name, value, step_ms) for name, value in values.items()})


@lru_cache(maxsize=1_000)
def _at_load(model: str, load: int) -> dict[str, float]:
    return card_values(model, 0, load / 100, throttled=False, xid_code=None)
