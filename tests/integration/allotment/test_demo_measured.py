"""The measurements of the demo's week are the same quantities on every grain."""

from __future__ import annotations

import random
import uuid

import numpy as np
import pytest

from allotment.demo.history.measured import Grid, WeekSlice, average_use, slice_series
from clusters.backends.simulated.load import HEAT_S, LoadCurve

HOUR_MS = 3_600_000
BEGIN_MS = 1_793_577_600_000
STEPS_MS = (10_000, 60_000, 900_000, HOUR_MS)


def hold_of(seed: int, use: float) -> WeekSlice:
    """A hold that begins, runs and ends at moments beside those of the grids."""
    rng = random.Random(seed)
    since = BEGIN_MS + rng.randrange(-HOUR_MS, 4 * HOUR_MS)
    active = since + rng.randrange(400_000)
    ids = (uuid.UUID(int=rng.getrandbits(128)) for _ in range(8))
    until = active + rng.randrange(30_000, 5 * HOUR_MS)
    return WeekSlice(
        *ids, cores=rng.choice((25, 100)), memory_mib=8_192, since_ms=since, until_ms=until, active_ms=active,
        load=LoadCurve.for_pod(f"pod-{seed}", use),
    )  # fmt: skip


def sums(hold: WeekSlice, step_ms: int) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """The held time and the used amounts times their time, by hour."""
    grid = Grid(step_ms, BEGIN_MS // step_ms, (BEGIN_MS + 12 * HOUR_MS) // step_ms)
    (found,) = slice_series([hold], grid)
    made = {}
    for name, mean in (("held", 1.0), ("cores", found.cores_used), ("memory", found.memory_used)):
        whole = np.zeros(len(grid))
        whole[found.columns] = mean * found.held * step_ms
        made[name] = whole.reshape(12, -1).sum(axis=1)
    return made


@pytest.mark.parametrize("use", [0.02, 0.6, 0.95, 1.0, 1.3])
@pytest.mark.parametrize("seed", range(6))
def test_an_average_over_a_long_interval_is_that_of_the_short_ones(seed: int, use: float) -> None:
    hold = hold_of(seed, use)
    finest, *coarser = (sums(hold, step_ms) for step_ms in STEPS_MS)
    assert finest["cores"].any()
    for sum_of_grain in coarser:
        for name, expected in finest.items():
            assert np.allclose(sum_of_grain[name], expected, rtol=1e-6, atol=1e-3), name


@pytest.mark.parametrize("use", [0.02, 0.6, 0.95, 1.0, 1.3])
def test_use_varies_around_that_of_the_job_and_is_never_above_its_share(use: float) -> None:
    hold = hold_of(1, use)
    warm = hold.active_ms // 10_000 + 12  # type: ignore[operator]
    (found,) = slice_series([hold], Grid(10_000, warm, hold.until_ms // 10_000))
    shares = found.cores_used / hold.cores
    assert (shares <= 1.0).all() and (shares >= min(0.85 * use, 0.8)).all()
    assert (shares <= 1.12 * use + 1e-9).all()
    assert shares.std() > 0 or use >= 1 / 0.985


@pytest.mark.parametrize("mean", [0.02, 0.5, 0.95])
def test_use_and_heat_are_those_that_the_simulated_cluster_reports(mean: float) -> None:
    """Just after the start of the pod as well as later."""
    load = LoadCurve.for_pod("pod/GPU-1", mean)
    edges = np.arange(BEGIN_MS, BEGIN_MS + HOUR_MS, 10_000)
    use, heat = average_use(load, BEGIN_MS, edges)
    for begin, now, late in zip(edges, use, heat, strict=False):
        at_s, age_s = (begin + 5_000) / 1000, (begin + 5_000 - BEGIN_MS) / 1000
        assert now == pytest.approx(load.compute_share(at_s, age_s), rel=0.02, abs=0.001)
        if age_s > 300:
            assert late == pytest.approx(load.lagged_share(at_s, age_s, None, HEAT_S), rel=0.02, abs=0.001)
