"""The size of a run of `bench kube`, and its figures with their limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.support.report import FigureRow, Report

Bounds = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Nodes with `each` GPUs; `owned` GPUs are the quota of the team that reclaims them as whole nodes."""

    nodes: int
    each: int
    owned: int
    plain: int
    steady: int

    @property
    def cards(self) -> int:
        return self.nodes * self.each


def size_of(bounds: Bounds, share: float) -> Size:
    """Return a `share` of the whole run: of its nodes, reclaimed GPUs, and seconds at a steady rate."""
    each = bounds["cards_per_node"]
    nodes = max(2, round(bounds["nodes"] * share))
    return Size(
        nodes=nodes,
        each=each,
        owned=each * min(nodes - 1, max(1, round(bounds["reclaimed"] * share / each))),
        plain=min(bounds["bare"], nodes * each),
        steady=bounds["steady_per_s"] * max(5, round(bounds["steady_s"] * share)),
    )


@dataclass(slots=True)
class KubeFigures:
    """Rates in pods per second, times in seconds; `steady_s` has one time for each job."""

    created: float
    created_and_bound: float
    minimal: float
    steady_s: Sequence[float]
    filled_s: float
    reclaimed_s: float
    spent_s: Mapping[str, float] = field(default_factory=dict)


def build_report(bounds: Bounds, size: Size, figures: KubeFigures) -> Report:
    """Return the table. Limits are maxima, so a figure with a minimum is reported as its inverse."""
    rate = size.cards / figures.filled_s
    ordered = sorted(figures.steady_s)
    p95_s = ordered[min(int(0.95 * len(ordered)), len(ordered) - 1)]
    rows = [
        FigureRow("bare creates, pods/s", figures.created),
        FigureRow("bare creates and bindings, pods/s", figures.created_and_bound),
        FigureRow("submitted to bound, pods/s", rate),
        FigureRow(
            "bare pods bound in the time of one of ours",
            figures.created_and_bound / rate,
            1 / bounds["of_bare"],
        ),
        FigureRow("minimal pods bound in the time of one of ours", figures.minimal / rate),
        FigureRow(f"submit to bound at {bounds['steady_per_s']} jobs/s, p95 s", p95_s, bounds["p95_s"]),
        FigureRow(f"{size.cards} jobs of one card bound, s", figures.filled_s, bounds["filled_s"]),
        FigureRow(f"one job takes {size.owned} cards back, s", figures.reclaimed_s, bounds["reclaimed_s"]),
    ]
    rows += [FigureRow(f"processor of {name}, s", used) for name, used in figures.spent_s.items()]
    counts = {"nodes": size.nodes, "cards": size.cards}
    return Report(
        name="kube", size=counts, rows=rows, seconds=figures.filled_s, rate=rate, latencies_s=figures.steady_s
    )
