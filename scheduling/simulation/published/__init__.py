"""The policies that are published with the packing traces, as a baseline for the platform's own policy.

No cell uses them, because in cycles they pack worse than the platform's policy. They are plug-ins of the
simulator, registered like all plug-ins.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from scheduling.engine import BUILTIN, EngineConfig
from scheduling.simulation.published.gradient import FragmentationGradient
from scheduling.simulation.published.scores import BestFit, Clustering, DotProduct, Packing

SCORES: Final = (BestFit(), DotProduct(), Packing(), Clustering(), FragmentationGradient())


@cache
def published_config() -> EngineConfig:
    """Return the engine's configuration with a policy for each published score."""
    own = tuple((score.name, ((score.name, 1),)) for score in SCORES)
    return EngineConfig(
        policies=(*EngineConfig().policies, *own),
        plugins=replace(BUILTIN, scores=BUILTIN.scores.with_plugins(*SCORES)),
    )
