"""Meters, legends, progress, GPU tiles and charts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from html import escape
from typing import Final
from urllib.parse import urlencode

from django import template
from django.http import QueryDict
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from frontend.charts import Chart
from frontend.components.capacity import KIND_WORDS, Meter, NodeMosaic, NodeTiles
from frontend.shell.time_range import TimeRange

register = template.Library()


@register.filter
def unlocalized(value: float | None) -> str:
    """Return a number for SVG: a decimal point and no separators in every language."""
    return "0" if value is None else f"{value:g}"


@register.simple_tag
def meter(meter: Meter, *, tall: bool = False, legend: bool = False) -> SafeString:
    """Return the quota bar; `legend` writes the amounts below it.

    Widths are SVG attributes, so that no inline style needs an exception in the content security policy. A
    list has one bar in each row, for which a template would be slow.
    """
    words, mark = escape(meter.description()), meter.nominal_mark
    bars = "".join([
        f'<rect class="fill-{part.kind}" x="{part.start:g}%" width="{part.width:g}%" height="100%"/>'
        for part in meter.build_segments()
    ])  # fmt: skip
    if mark:
        bars += f'<rect class="fill-nominal" x="{mark:g}%" width="2" height="100%"/>'
    css = "meter tall" if tall else "meter"
    drawn = f'<svg class="{css}" role="img" aria-label="{words}"><title>{words}</title>{bars}</svg>'
    text = f'<p class="meter-text">{words}</p>' if legend else ""
    return mark_safe(drawn + text)  # noqa: S308 (its text is escaped)


@register.inclusion_tag("frontend/components/legend.html")
def legend(*kinds: str) -> dict[str, object]:
    """Return the legend of the colors: used, allocated, borrowed, lent, reserved, free."""
    return {"items": [(kind, KIND_WORDS[kind]) for kind in kinds]}


@register.inclusion_tag("frontend/components/progress.html")
def progress(done: float, total: float, label: str = "") -> dict[str, object]:
    """Return a progress bar with its numbers."""
    share = round(min(100.0, 100 * done / total), 2) if total else 0.0
    return {"done": done, "total": total, "share": share, "label": label}


@register.inclusion_tag("frontend/components/nodes.html")
def gpu_grid(nodes: Iterable[NodeTiles]) -> dict[str, object]:
    """Return nodes side by side, a tile per GPU."""
    return {"nodes": nodes}


_MOSAIC: Final = (
    '<a class="mosaic {}" href="{}" title="{}" aria-label="{}"><span>{}</span>'
    '<svg viewBox="0 0 {} 16" preserveAspectRatio="none" aria-hidden="true">{}</svg></a>\n  '
)


@register.simple_tag
def node_mosaics(nodes: Iterable[NodeMosaic]) -> SafeString:
    """Return nodes as small drawings, each written by one format: a template would be slow for thousands."""
    drawn = mark_safe("".join(map(_draw_mosaic, nodes)))  # noqa: S308 (its texts are escaped)
    return format_html('<div class="mosaics">\n  {}\n</div>', drawn)


def _draw_mosaic(node: NodeMosaic) -> str:
    """Return one drawing. Its paths consist of numbers, so the slow escaping is skipped; empty paths are left
    out, because there are thousands of nodes.
    """
    paths = [("fill-free", node.background), ("fill-broken", node.unhealthy), ("fill-foreign", node.foreign)]
    paths += [(f"owner whole {color}", path) for color, path in node.owners] or [
        ("fill-allocated", node.allocated),
        ("fill-unmeasured", node.unmeasured),
        ("fill-used", node.used),
    ]
    drawn = "".join([f'<path class="{kind}" d="{path}"/>' for kind, path in paths if path])
    text = escape(node.text)
    return _MOSAIC.format(
        escape(node.tone), escape(node.url), text, text, escape(node.name), node.width, drawn
    )


@register.inclusion_tag("frontend/components/gpus.html")
def gpus(node: NodeTiles) -> dict[str, object]:
    """Return the GPUs of one node."""
    return {"gpus": node.gpus}


@register.inclusion_tag("frontend/components/ranges.html", takes_context=True)
def ranges(context: template.Context, shown: TimeRange) -> dict[str, object]:
    """Return the presets of a page's charts, a custom period, and the comparison; keeps other parameters."""
    request = context.get("request")
    parameters = request.GET.copy() if request is not None else QueryDict(mutable=True)
    for name in ("range", "from", "to", "compare", "page"):
        parameters.pop(name, None)
    others = [(name, value) for name, values in parameters.lists() for value in values]
    comparing = [("compare", "1")] if shown.compare else []
    toggled = {key: value for key, value in shown.query.items() if key != "compare"}
    switched = [] if shown.compare else [("compare", "1")]
    return {
        "range": shown,
        "kept": [*others, *comparing],
        "choices": [
            {
                "label": label,
                "current": key == shown.key,
                "url": f"?{urlencode([*others, ('range', key), *comparing])}",
            }
            for key, label in shown.choices
        ],
        "compare_url": f"?{urlencode([*others, *toggled.items(), *switched], safe=':')}",
        "from_text": f"{shown.start.astimezone(UTC):%Y-%m-%dT%H:%M}",
        "to_text": f"{shown.end.astimezone(UTC):%Y-%m-%dT%H:%M}",
    }


@register.inclusion_tag("frontend/components/chart.html")
def chart(
    chart: Chart | None = None,
    *,
    key: str = "",
    url: str = "",
    every: int = 0,
    size: str = "",
    label: str = "",
) -> dict[str, object]:
    """Return a chart given inline, fetched from `url`, or both; `size` is low, high or empty."""
    return {
        "chart": chart,
        "key": chart.key if chart else key,
        "url": url,
        "every": every,
        "size": size,
        "label": label or (chart.summary if chart else ""),
    }
