"""The distribution of utilization over the GPUs that are allocated now."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from django.utils.translation import gettext as _

from clusters.selectors.grid import GridNode
from frontend.charts import Chart, count_bars
from telemetry.series import CardNow

_WIDTH: Final = 10
_LAST: Final = 9


def use_histogram(nodes: Sequence[GridNode], now: Mapping[uuid.UUID, CardNow]) -> Chart | None:
    """Count allocated GPUs by their utilization, in steps of ten percent; None if none is allocated.

    Idle GPUs have a bar of their own, and so have those without a reading, because that is not 0.
    """
    cards = [card for node in nodes for card in node.cards if card.cores_granted]
    if not cards:
        return None
    known = [now[card.id].utilisation_percent for card in cards if card.id in now]
    buckets = Counter(min(_LAST, int(percent) // _WIDTH) for percent in known if percent >= 1)
    steps = [(step * _WIDTH, (step + 1) * _WIDTH) for step in range(_LAST + 1)]
    names = [_("Idle"), *(f"{max(1, low)}\u2013{high} %" for low, high in steps)]
    counts = [len([percent for percent in known if percent < 1]), *(buckets[n] for n in range(_LAST + 1))]
    colors = ["free", *(["used"] * (_LAST + 1))]
    return count_bars(
        "ops-distribution",
        [*names, _("No data")],
        [*counts, len(cards) - len(known)],
        [*colors, "line-strong"],
        unit=_("GPUs"),
        title=_("GPU utilization"),
    )
