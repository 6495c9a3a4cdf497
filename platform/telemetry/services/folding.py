"""Combines rows of one channel into one row: means weighted by the time they cover, and extremes.

Rows of any grain are combined alike, so a roll-up of roll-ups equals one of readings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from telemetry.models import Rolled
from telemetry.store.packing import Stats, add_following, pack_stats

MEANS: Final = (
    "cores_used",
    "cores_allocated",
    "memory_used_mib",
    "memory_allocated_mib",
    "temperature_c",
    "power_w",
    "cards",
    "cards_sampled",
    "cards_allocated",
    "memory_capacity_mib",
)
LOWEST: Final = {"cores_used_min": "cores_used", "memory_used_mib_min": "memory_used_mib"}
HIGHEST: Final = {
    "cores_used_max": "cores_used",
    "memory_used_mib_max": "memory_used_mib",
    "temperature_max_c": "temperature_c",
    "power_w_max": "power_w",
}
FIELDS: Final = [*MEANS, *LOWEST, *HIGHEST, "count", "covered_ms", "values"]


@dataclass(slots=True)
class Fold:
    """The sum of a channel's rows so far. A column without any value stays unknown."""

    count: int = 0
    covered_ms: int = 0
    longest_ms: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    extremes: dict[str, float] = field(default_factory=dict)
    stats: Stats = field(default_factory=dict)

    def add_row(self, row: Mapping[str, Any], count: int, covered_ms: int, stats: Stats) -> None:
        """Add the next row in time; an extreme without a column of its own is the row's value."""
        self.count += count
        self.covered_ms += covered_ms
        self.longest_ms = max(self.longest_ms, covered_ms)
        summed = row.get("cards_sampled") is not None
        for name in MEANS:
            value = row.get(name)
            if value is None and summed and name == "cores_used":
                value = 0.0  # the sum over no card, so that it stays in proportion to `cards_sampled`
            if value is not None:
                self.sums[name] = self.sums.get(name, 0.0) + value * covered_ms
                self.weights[name] = self.weights.get(name, 0) + covered_ms
        for names, pick in ((LOWEST, min), (HIGHEST, max)):
            for name, of in names.items():
                value = row[name] if name in row else row.get(of)
                if value is not None:
                    known = self.extremes.get(name)
                    self.extremes[name] = value if known is None else pick(known, value)
        add_following(self.stats, stats)

    def build_row(self, model: type[Rolled], channel_id: int, at_ms: int, grain_ms: int) -> Rolled:
        """Return the row to store. It covers no more than its grain, or than one reading of a longer time."""
        means = {name: self.sums[name] / self.weights[name] for name in self.sums}
        if means.get("cards_sampled") == 0:
            means.pop("cores_used", None)
        return model(
            channel_id=channel_id,
            at_ms=at_ms,
            count=self.count,
            covered_ms=min(self.covered_ms, max(grain_ms, self.longest_ms)),
            values=pack_stats(self.stats),
            **means,
            **self.extremes,
        )
