"""Lines of single GPUs beside the mean of a job: the choice in the address, and the lines that are drawn for
it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.http import HttpRequest

from foundation.core.actor import Actor
from frontend.charts import ChartLine
from frontend.pages.charts.definitions import ChartDefinition
from frontend.pages.charts.drawing import distinguish_labels
from telemetry.series import Series, SeriesQuery, read_series

EACH: Final = "each"
EACH_MOST: Final = 8
"""The maximum number of lines that can be distinguished; of a larger job, GPUs are selected one by one."""


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """The lines that are drawn beside the mean: of `each` GPU, of one, or of none."""

    each: bool = False
    gpu: uuid.UUID | None = None

    @property
    def value(self) -> str:
        """The choice as a value of the address."""
        return EACH if self.each else str(self.gpu or "")

    @property
    def query(self) -> dict[str, str]:
        """The parameter of the address with the choice."""
        return {"gpu": self.value} if self.value else {}


NO_CHOICE: Final = GpuChoice()


def read_gpu_choice(request: HttpRequest) -> GpuChoice:
    """Return the choice in an address; none for a value that names no GPU."""
    text = request.GET.get("gpu", "")
    try:
        return GpuChoice(each=True) if text == EACH else GpuChoice(gpu=uuid.UUID(text))
    except ValueError:
        return NO_CHOICE


def chosen_query(chart: ChartDefinition, query: SeriesQuery, choice: GpuChoice) -> SeriesQuery | None:
    """Return the request for the measures of the selected GPUs; None where there is nothing to add.

    Charts of states get no additional lines: see `narrow_query`.
    """
    if not choice.value or not chart.measures or chart.words:
        return None
    return replace(query, group_by="gpu", gpu=choice.gpu)


def narrow_chart(chart: ChartDefinition, choice: GpuChoice) -> ChartDefinition:
    """Return the chart with its first measure alone if each GPU has a line: more lines could not be
    distinguished.
    """
    return replace(chart, lines=chart.lines[:1]) if choice.each and chart.measures else chart


def narrow_query(chart: ChartDefinition, query: SeriesQuery, choice: GpuChoice) -> SeriesQuery:
    """Return the request of a chart whose own lines are those of the selected GPU."""
    return replace(query, gpu=choice.gpu) if chart.words or not chart.measures else query


def read_chosen_lines(
    viewer: Actor, chart: ChartDefinition, query: SeriesQuery, choice: GpuChoice, step_s: int
) -> list[ChartLine]:
    """Return the lines of the selected GPUs, at the points of the chart's own lines."""
    wanted = chosen_query(chart, query, choice)
    if wanted is None:
        return []
    found = read_series(viewer, replace(wanted, step=step_s))
    if choice.each and len(found.series) + found.omitted > EACH_MOST:
        return []
    words = {line.measure: line for line in chart.lines}
    known = [
        one for one in found.series if one.subject and any(value is not None for _at, value in one.points)
    ]
    return [
        ChartLine(
            name=name if len(words) == 1 else f"{words[one.measure].name} · {name}",
            points=[(at, None if value is None else value / chart.per) for at, value in one.points],
            color=f"series-{place % EACH_MOST + 1}" if choice.each else words[one.measure].color,
            dash="dot",
        )
        for place, (one, name) in enumerate(zip(known, _names(known, choice), strict=True))
    ]


def _names(lines: Sequence[Series], choice: GpuChoice) -> list[str]:
    return distinguish_labels(lines) if choice.each else [one.label for one in lines]
