"""The view models of a meter and a GPU tile.

Allocation and utilization are separate facts. A meter therefore shows them nested, never added: the used part
is inside the allocated part, and the text alternative names both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from frontend.texts.formats import add_note, format_number


class Segment(NamedTuple):
    """One segment of a meter, in percent of its length, with its amount."""

    kind: str
    start: float
    width: float
    amount: float


KIND_WORDS: dict[str, str | Promise] = {
    "used": gettext_lazy("used"),
    "allocated": gettext_lazy("allocated"),
    "borrowed": gettext_lazy("borrowed"),
    "lent": gettext_lazy("lent"),
    "held": gettext_lazy("reserved"),
    "foreign": gettext_lazy("used outside Allotment"),
    "free": gettext_lazy("free"),
}


@dataclass(frozen=True, kw_only=True)
class Meter:
    """A quota's state in one unit: `allocated` includes borrowed quota; `used` is a part of it.

    Borrowed quota is drawn beyond the nominal mark. `used` None is not measured, and is not mentioned; with
    `is_partly_measured` it is a lower bound. `lent` is nominal quota that others use now; `held` is reserved
    for a preemptor; `foreign` is taken by pods outside Allotment.
    """

    nominal: float
    allocated: float = 0
    used: float | None = None
    borrowed: float = 0
    lent: float = 0
    held: float = 0
    foreign: float = 0
    unit: str = ""
    is_partly_measured: bool = False

    @property
    def length(self) -> float:
        """The end of the bar: borrowed amounts are beyond the nominal, even where a part of it is free."""
        inside = max(self.nominal, self._own + self.lent + self.held + self.foreign)
        return max(inside + self.borrowed, 1)

    @property
    def _own(self) -> float:
        return max(0.0, self.allocated - self.borrowed)

    @property
    def free(self) -> float:
        taken = self.allocated - self.borrowed + self.lent + self.held + self.foreign
        return max(0.0, self.nominal - taken)

    @property
    def nominal_mark(self) -> float | None:
        """The end of the nominal quota in percent; None where it is the end of the bar."""
        return round(100 * self.nominal / self.length, 2) if self.nominal < self.length else None

    def build_segments(self) -> list[Segment]:
        used = min(self.used or 0, self._own)
        parts = (
            ("used", used, self.used or 0),
            ("allocated", self._own - used, self.allocated),
            ("lent", self.lent, self.lent),
            ("held", self.held, self.held),
            ("foreign", self.foreign, self.foreign),
            ("", self.free, self.free),
            ("borrowed", self.borrowed, self.borrowed),
        )
        return [one for one in lay_out(parts, self.length) if one.kind]

    @property
    def used_text(self) -> str:
        """The used amount as text."""
        return f"≥ {_format(self.used)}" if self.is_partly_measured else _format(self.used)

    def description(self) -> str:
        """Return the meter as text, for screen readers and as its tooltip."""
        facts = [
            _("%(amount)s of %(nominal)s allocated")
            % {"amount": _format(self.allocated), "nominal": _format(self.nominal)},
        ]
        if self.used is not None:
            facts.append(_("%(amount)s used") % {"amount": self.used_text})
        if self.borrowed:
            facts.append(_("%(amount)s borrowed") % {"amount": _format(self.borrowed)})
        if self.lent:
            facts.append(_("%(amount)s lent") % {"amount": _format(self.lent)})
        if self.held:
            facts.append(_("%(amount)s reserved") % {"amount": _format(self.held)})
        if self.foreign:
            facts.append(_("%(amount)s used outside Allotment") % {"amount": _format(self.foreign)})
        facts.append(_("%(amount)s free") % {"amount": _format(self.free)})
        return add_note(_(", ").join(facts), self.unit) if self.unit else _(", ").join(facts)


def _format(amount: float | None) -> str:
    return format_number(amount, 1).removesuffix(".0")


def lay_out(parts: Iterable[tuple[str, float, float]], length: float) -> Iterable[Segment]:
    """Yield parts side by side: kind, width and amount of each, over a length in the unit of the widths."""
    start = 0.0
    for kind, width, amount in parts:
        if width > 0:
            yield Segment(kind, round(100 * start / length, 2), round(100 * width / length, 2), amount)
        start += width


@dataclass(frozen=True, kw_only=True)
class GpuTile:
    """One GPU: how much of it is allocated and how much is used, both in percent of the GPU.

    `slices` lists the cores of each slice on it and is empty for a whole GPU. `foreign` is the part of pods
    outside Allotment.
    """

    name: str
    allocated: float = 0
    used: float | None = None
    foreign: float = 0
    slices: Sequence[float] = ()
    healthy: bool = True
    held: bool = False
    url: str = ""
    holder: str = ""
    owners: Sequence[tuple[float, str, str]] = ()
    """The cores, the color and the name of each holder; if given, columns have these colors."""

    @property
    def owner_bars(self) -> list[tuple[Segment, str]]:
        """The column of each holder with its color."""
        laid = lay_out((("owner", cores, cores) for cores, _color, _name in self.owners), 100)
        return list(zip(laid, [color for cores, color, _name in self.owners if cores > 0], strict=True))

    @property
    def bars(self) -> list[Segment]:
        """The allocated part: one column per slice, or one for the whole GPU."""
        shares = self.slices or ((self.allocated,) if self.allocated > 0 else ())
        return list(lay_out((("slice" if self.slices else "whole", share, share) for share in shares), 100))

    @property
    def foreign_width(self) -> float:
        """The width of pods outside Allotment: after the allocated part, and no wider than the GPU."""
        return round(max(0.0, min(self.foreign, 100 - self.allocated)), 2)

    @property
    def is_unmeasured(self) -> bool:
        """Return whether a part of the GPU is allocated and its use is unknown."""
        return self.used is None and self.allocated > 0

    @property
    def used_height(self) -> float:
        """The height of the columns, so that the dark area is the used share of the GPU."""
        if not self.used or self.allocated <= 0:
            return 0.0
        return round(min(100.0, 100 * self.used / self.allocated), 2)

    @property
    def used_top(self) -> float:
        return round(100 - self.used_height, 2)

    def description(self) -> str:
        facts = [self.name]
        if not self.healthy:
            facts.append(_("unhealthy"))
        if self.held:
            facts.append(_("reserved"))
        facts.append(_("%(amount)s %% allocated") % {"amount": format_number(self.allocated)})
        if self.is_unmeasured:
            facts.append(_("Utilization not measured"))
        elif self.used is not None and self.allocated:
            facts.append(_("%(amount)s %% used") % {"amount": format_number(self.used)})
        if self.foreign:
            facts.append(_("%(amount)s %% used outside Allotment") % {"amount": format_number(self.foreign)})
        if self.slices:
            facts.append(_("%(count)s slices") % {"count": len(self.slices)})
        if self.owners:
            facts += [f"{name} {format_number(cores)} %" for cores, _color, name in self.owners]
        if self.holder:
            facts.append(self.holder)
        return _(", ").join(facts)


@dataclass(frozen=True, kw_only=True)
class NodeTiles:
    """A node and its GPUs, as the grid of an overview shows them."""

    name: str
    note: str = ""
    url: str = ""
    state: str = "ready"
    gpus: Sequence[GpuTile] = field(default_factory=tuple)

    @property
    def tone(self) -> str:
        if self.state in ("not-ready", "lost"):
            return "unhealthy"
        return "held" if self.state in ("cordoned", "closed", "draining") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMosaic:
    """One node as SVG paths over `width` × 16 units."""

    name: str
    url: str
    tone: str
    text: str
    width: int
    background: str
    allocated: str
    used: str
    unmeasured: str
    foreign: str
    unhealthy: str
    owners: Sequence[tuple[str, str]]
    """A path for each color of a tenant, in place of the allocated and used paths."""
