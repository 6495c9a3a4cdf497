"""What befell a node, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import NodeEvent
from frontend.components import view_models

_TEXTS: Final[dict[str, tuple[str | Promise, str]]] = {
    "added": (gettext_lazy("the node joined the cluster"), "running"),
    "left": (gettext_lazy("the node left the cluster; its jobs are told to leave"), "failed"),
    "not-ready": (gettext_lazy("the node does not answer; after 30 s its jobs are told to leave"), "failed"),
    "ready": (gettext_lazy("the node answers again"), "running"),
    "cordoned": (gettext_lazy("cordoned: nothing new is put here, what runs goes on"), "waiting"),
    "uncordoned": (gettext_lazy("open for new work again"), "running"),
    "pressure": (gettext_lazy("short of %(of)s: one task at a time is told to leave"), "waiting"),
    "pressure-over": (gettext_lazy("no longer short of anything"), "running"),
    "drained": (gettext_lazy("drained by the taint %(taint)s: its jobs are queued again"), "waiting"),
    "drain-over": (gettext_lazy("the taint %(taint)s was taken off"), "running"),
    "cards-lost": (gettext_lazy("GPUs that stopped taking work: %(cards)s"), "failed"),
    "cards-back": (gettext_lazy("GPUs that take work again: %(cards)s"), "running"),
}
_HELD: Final = gettext_lazy("the node answers again, and gets nothing new until it has stayed for 5 minutes")
_PRESSURE: Final = {
    "memory": gettext_lazy("memory"),
    "disk": gettext_lazy("disk"),
    "pid": gettext_lazy("process ids"),
}


def told(event: NodeEvent) -> view_models.StoryRow:
    """An event as a line of the node's story."""
    text, tone = _TEXTS.get(event.code, (event.code, ""))
    if "held_until" in event.numbers:
        text, tone = _HELD, "waiting"
    numbers = dict(event.numbers)
    if "of" in numbers:
        numbers["of"] = pressure_words(numbers["of"].split(", "))
    return view_models.StoryRow(at=event.at, text=str(text) % numbers, tag=_("node"), tone=tone)


def pressure_words(kinds: Iterable[str]) -> str:
    """What a node is short of, for people."""
    return _(", ").join(str(_PRESSURE.get(kind, kind)) for kind in kinds)
