"""The committed part of plotly.js is the output of its recipe, and draws everything in the figures."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Final

import plotly.graph_objects as go
from plotly.basedatatypes import BaseTraceType
from plotly.offline import get_plotlyjs_version

FRONTEND: Final = Path(__file__).parents[3] / "frontend"
RECIPE: Final = FRONTEND / "plotly"
VENDOR: Final = FRONTEND / "static" / "vendor"
PLANNED: Final = {"scatter", "bar", "heatmap", "histogram", "pie", "sankey", "sunburst", "treemap"}


def drawn_traces() -> set[str]:
    """The kinds of traces that the bundle draws; scatter is in all of them."""
    return {
        "scatter",
        *re.findall(r'require\("plotly\.js/lib/(\w+)"\)', (RECIPE / "bundle.js").read_text()),
    } - {"core"}


def test_the_files_are_those_that_the_recipe_made() -> None:
    sums = dict(reversed(line.split()) for line in (RECIPE / "SHA256SUMS").read_text().splitlines())
    assert set(sums) == {"plotly.min.js", "plotly.min.js.gz"}
    for name, wanted in sums.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == wanted, name
    assert (
        gzip.decompress((VENDOR / "plotly.min.js.gz").read_bytes()) == (VENDOR / "plotly.min.js").read_bytes()
    )


def test_the_version_is_the_pinned_one_and_understands_the_figures() -> None:
    pinned = json.loads((RECIPE / "package.json").read_text())["dependencies"]["plotly.js"]
    locked = json.loads((RECIPE / "package-lock.json").read_text())["packages"]["node_modules/plotly.js"]
    assert locked["version"] == pinned
    assert (VENDOR / "plotly.min.js").read_text(encoding="utf-8").startswith(f"/*! plotly.js v{pinned},")
    assert get_plotlyjs_version().split(".")[0] == pinned.split(".")[0]


def test_every_trace_of_a_figure_is_drawn() -> None:
    kinds = {name.lower(): getattr(go, name) for name in go.__all__}
    known = {
        name for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, BaseTraceType)
    }
    sources = [path.read_text(encoding="utf-8") for path in (FRONTEND / "charts").rglob("*.py")]
    named = {name for text in sources for name in re.findall(r'"type": "(\w+)"|\bgo\.([A-Z]\w+)', text)}
    used = {name.lower() for pair in named for name in pair} & known
    assert used >= {"scatter", "bar"}
    assert used <= drawn_traces()
    assert drawn_traces() >= PLANNED
