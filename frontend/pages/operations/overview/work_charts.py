"""The GPUs by pool, and the jobs by state and by type, as charts of the overview."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from django.utils.translation import gettext as _

from clusters.selectors.capacity import FlavorCapacity
from frontend.charts import Bars, Chart, count_bars, group_bars
from frontend.texts.labels import JOB_KINDS, JOB_STATES
from scheduling.models import RUNNING_STATES, JobState

_COLORS = {"queued": "held", "admitted": "allocated", "starting": "allocated", "running": "used"}


def draw_pools(flavors: Sequence[FlavorCapacity]) -> Chart | None:
    """Draw the GPUs of each pool, those allocated and those wholly free; None without pools."""
    if not flavors:
        return None
    parts = [
        Bars(name=_("GPUs"), values=[row.cards for row in flavors], color="held"),
        Bars(name=_("Allocated"), values=[row.cards_allocated / 100 for row in flavors], color="allocated"),
        Bars(name=_("Free"), values=[row.free for row in flavors], color="free"),
    ]
    names = [row.flavor.name for row in flavors]
    return group_bars("ops-pools", names, parts, unit=_("GPUs"), title=_("Pool"))


def draw_states(jobs: Mapping[tuple[str, str], int], pending: int) -> Chart:
    """Draw the pending jobs and the jobs that hold resources by state; `jobs` counts by state and type."""
    counts = Counter({JobState.QUEUED.value: pending})
    for (state, _kind), count in jobs.items():
        counts[state] += count
    states = [state for state in JOB_STATES if state in counts]
    return count_bars(
        "ops-job-states",
        [str(JOB_STATES[state].text) for state in states],
        [counts[state] for state in states],
        [_COLORS.get(state, "borrowed") for state in states],
        unit=_("jobs"),
        title=_("State"),
    )


def draw_kinds(jobs: Mapping[tuple[str, str], int]) -> Chart | None:
    """Draw the running jobs by type; None without any."""
    counts: Counter[str] = Counter()
    for (state, kind), count in jobs.items():
        if state in RUNNING_STATES:
            counts[kind] += count
    kinds = [kind for kind in JOB_KINDS if kind in counts]
    if not kinds:
        return None
    return count_bars(
        "ops-job-kinds",
        [str(JOB_KINDS[kind]) for kind in kinds],
        [counts[kind] for kind in kinds],
        ["used"] * len(kinds),
        unit=_("jobs"),
        title=_("Type"),
    )
