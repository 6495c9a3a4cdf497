"""Events of a node as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import NodeEvent
from frontend.components import view_models

_TEXTS: Final[dict[str, tuple[str | Promise, str]]] = {
    "added": (gettext_lazy("Node joined the cluster"), "running"),
    "left": (gettext_lazy("Node removed from the cluster; its jobs are evicted"), "failed"),
    "not-ready": (gettext_lazy("Node unreachable; its jobs are evicted after 30 s"), "failed"),
    "ready": (gettext_lazy("Node is reachable again"), "running"),
    "cordoned": (gettext_lazy("Cordoned: no new pods; running pods aren't affected"), "waiting"),
    "uncordoned": (gettext_lazy("Uncordoned"), "running"),
    "pressure": (gettext_lazy("%(of)s pressure: evicting one pod at a time"), "waiting"),
    "pressure-over": (gettext_lazy("Pressure ended"), "running"),
    "drained": (gettext_lazy("Drained by taint %(taint)s; its jobs are requeued"), "waiting"),
    "drain": (gettext_lazy("Drain requested by %(by)s"), "waiting"),
    "drain-done": (gettext_lazy("Drained: no jobs left"), "done"),
    "cordon-refused": (gettext_lazy("Refused by the cluster: %(message)s"), "failed"),
    "drain-over": (gettext_lazy("Taint %(taint)s removed"), "running"),
    "cards-lost": (gettext_lazy("GPUs marked unhealthy: %(cards)s"), "failed"),
    "cards-back": (gettext_lazy("GPUs recovered: %(cards)s"), "running"),
}
_HELD: Final = gettext_lazy("Node is reachable again; scheduling resumes after 5 stable minutes")
_BY: Final = {
    "cordoned": gettext_lazy("Cordoned by %(by)s: no new pods; running pods aren't affected"),
    "uncordoned": gettext_lazy("Uncordoned by %(by)s"),
}
_PRESSURE: Final = {
    "memory": gettext_lazy("memory"),
    "disk": gettext_lazy("disk"),
    "pid": gettext_lazy("PID"),
}


def event_row(event: NodeEvent) -> view_models.EventRow:
    """Return an event as a row of the node's timeline."""
    text, tone = _TEXTS.get(event.code, (event.code, ""))
    if "held_until" in event.numbers:
        text, tone = _HELD, "waiting"
    if event.numbers.get("by"):
        text = _BY.get(event.code, text)
    numbers = dict(event.numbers)
    if "of" in numbers:
        numbers["of"] = pressure_words(numbers["of"].split(", "))
    detail = _("Reason: %(reason)s") % numbers if numbers.get("reason") else ""
    return view_models.EventRow(
        at=event.at, text=str(text) % numbers, tag=_("Node"), tone=tone, detail=detail
    )


def pressure_words(kinds: Iterable[str]) -> str:
    """Return the pressure conditions of a node as text."""
    return _(", ").join(str(_PRESSURE.get(kind, kind)) for kind in kinds)
