"""The configuration of the platform's engine for cycles, previews, checks and saved cycles.

The sweep handles time limits, lost nodes and jobs that do not start, which need no cycle. The action `admit`
also evicts the jobs of drained queues, so that it counts on the capacity that they release.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from django.conf import settings

from foundation.core.quantities import Resource
from scheduling import engine
from scheduling.engine.model import UserShares
from scheduling.engine_input.preview_time import start_stopwatch

FAIR, CLASSICAL = "fair", "classical"
"""The values of `clusters.models.Sharing`; saved cycles are replayed without Django, which models need."""
ACTIONS: Final = ("pressure", "idle", "resize", "admit", "consolidate", "elastic")
"""The actions of a cycle, in the order in which they run."""

# A card counts as much as 16 CPUs or about 100 GiB of memory; GPU memory does not count separately.
_USER_WEIGHTS: Final = (
    (Resource.GPU_CORES.value, 1000),
    (Resource.CPU.value, 6),
    (Resource.MEMORY.value, 1),
    (Resource.GPU_CARDS.value, 0),
    (Resource.GPU_MEMORY.value, 0),
)


@cache
def user_shares() -> UserShares:
    """Return the configuration of fair shares among users, with the weight of each resource."""
    return UserShares(resource_weights=_USER_WEIGHTS)


@cache
def engine_config(sharing: str = FAIR) -> engine.EngineConfig:
    """Return the configuration for cells with this sharing and the plug-ins of installed packages, which are
    read once per process.

    An installed veto applies to every job. An installed score, order or action applies only where it is
    named. Raises: ConfigError when an installed plug-in cannot be used.
    """
    plugins = engine.with_entry_points(engine.BUILTIN)
    default = engine.EngineConfig()
    installed = tuple(name for name in plugins.vetoes.list_names() if name not in engine.BUILTIN.vetoes)
    return engine.EngineConfig(
        actions=ACTIONS,
        backfill=engine.BackfillOptions(reservation_after_s=settings.ALLOTMENT_HOLD_AFTER_S or None),
        vetoes=(*default.vetoes, *installed),
        fair_sharing=engine.FairSharing() if sharing == FAIR else None,
        preemption=engine.PreemptionOptions(loss_budget_permille=settings.ALLOTMENT_PREEMPTION_LOSS_PERMILLE),
        user_shares=user_shares(),
        plugins=plugins,
    )


@cache
def brief_config(sharing: str = FAIR) -> engine.EngineConfig:
    """Return the configuration of a brief cycle between two whole ones, which places jobs on released
    capacity.

    Raises: ConfigError, as `engine_config`.
    """
    actions = tuple(name for name in ACTIONS if name not in ("consolidate", "elastic"))
    return replace(
        engine_config(sharing),
        actions=actions,
        stop_without_free_capacity=True,
        explain=engine.ExplainScope.CONSIDERED,
    )


def preview_config(sharing: str = FAIR, *, advise_for: str = "") -> engine.EngineConfig:
    """Return the configuration of the cycles of a preview, which raise DeadlineExceededError once its time is
    over. The time begins with the first configuration of a preview.

    Recommendations are tried for the job `advise_for` only.
    Raises: ConfigError, as `engine_config`; RuntimeError outside of a `services.previewing.preview`.
    """
    stopwatch, deadline = start_stopwatch()
    return replace(engine_config(sharing), advise_for=advise_for, stopwatch=stopwatch, deadline=deadline)
