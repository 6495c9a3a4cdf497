"""Sectors and flows of the diagrams of a pool's quota."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.utils.translation import gettext as _

from frontend.charts import FlowBand, Sector
from frontend.pages.quotas.tree_lines import TreeColumn
from frontend.texts import formats
from frontend.texts.allocated_use import AllocatedUse, format_used
from quotas.selectors.tables.quota_flows import FlowSide, QuotaFlow, QuotaSlice

NOMINAL: Final = "nominal"
ALLOCATED: Final = "allocated"
USED: Final = "used"
MEASURES: Final = (NOMINAL, ALLOCATED, USED)
_UNMEASURED: Final = "no-data"
Used = Mapping[uuid.UUID, AllocatedUse | None]
"""The use of tenants, by node in the resource's unit; None is not measured."""
TENANTS_MAX: Final = 200
"""The maximum number of tenants that can be distinguished; the smallest are drawn as one per folder."""
ENDS_MAX: Final = 60
_WHOLE: Final = "all"
_UNDIVIDED: Final = "undivided"
"""The part of a tenant whose children are not drawn."""
_COLORS: Final = {
    "allocated": "allocated",
    "borrowed": "borrowed",
    "lent": "lent",
    "free": "free",
}


@dataclass(slots=True)
class _Drawn:
    """A tenant with its drawn parts, and those of its children."""

    one: QuotaSlice
    parts: Counter[str] = field(default_factory=Counter)
    own: Counter[str] = field(default_factory=Counter)
    rest: Counter[str] = field(default_factory=Counter)
    rest_count: int = 0
    total: int = 0


def picture_sectors(
    slices: Sequence[QuotaSlice], measure: str, column: TreeColumn, used: Used
) -> list[Sector]:
    """Return the tenants with the parts of their quota, nominal or allocated.

    For `USED` these are the tenants with their nominal, colored by its used part.
    """
    drawn = {one.node_id: _draw(one, measure) for one in slices}
    small = _smallest(drawn)
    for pk in small:
        parent = drawn[pk].one.parent_id
        if parent is not None:
            drawn[parent].rest += drawn[pk].parts
            drawn[parent].rest_count += 1
    for found in reversed([found for pk, found in drawn.items() if pk not in small]):
        found.total += found.parts.total() + found.own.total() + found.rest.total()
        if (parent := found.one.parent_id) is not None:
            drawn[parent].total += found.total
    words, unit = part_words(), column.unit
    shown = {pk: found for pk, found in drawn.items() if pk not in small and found.total}
    tops = [found for found in shown.values() if found.one.parent_id is None]
    # Tenants without a parent in sight need a common whole.
    whole = _WHOLE if len(tops) > 1 else ""
    sectors = []
    if whole:
        total = sum(found.total for found in tops)
        sectors.append(
            Sector(key=_WHOLE, parent="", label=_("All tenants"), value=total / unit, color="sunken")
        )
    for pk, found in shown.items():
        above = str(found.one.parent_id) if found.one.parent_id else whole
        color, shade = "brand-soft" if found.one.is_folder else "info-soft", None
        if measure == USED:
            color, shade = _UNMEASURED, _shade(found.one, used[pk])
        sectors.append(
            Sector(
                key=str(pk),
                parent=above,
                label=found.one.name,
                value=found.total / unit,
                color=color,
                shade=shade,
                note=_describe(found.one, used[pk], column),
            )
        )
        sectors += _parts(str(pk), found.parts, words, unit)
        for name, label, parts in (
            ("own", _("Unassigned"), found.own),
            ("rest", _("%(n)s others") % {"n": found.rest_count}, found.rest),
        ):
            if parts.total():
                key = f"{pk}.{name}"
                value = parts.total() / unit
                sectors.append(Sector(key=key, parent=str(pk), label=label, value=value, color="sunken"))
                sectors += _parts(key, parts, words, unit)
    return sectors


def _shade(one: QuotaSlice, use: AllocatedUse | None) -> float | None:
    """Return the used part of the nominal, at most 1; None if it is not known."""
    return None if use is None or not one.nominal else min(1.0, use.used / one.nominal)


def _describe(one: QuotaSlice, use: AllocatedUse | None, column: TreeColumn) -> str:
    """Return all amounts of a tenant as text."""
    words = part_words()
    amounts = {
        _("Nominal quota"): column.format_amount(one.nominal),
        words["allocated"]: column.format_amount(one.allocated + one.borrowed),
        _("Used"): format_used(use, column.format_amount),
        words["borrowed"]: column.format_amount(one.borrowed),
        words["lent"]: column.format_amount(one.lent),
        words["free"]: column.format_amount(None if one.nominal is None else one.free),
    }
    return "<br>".join(f"{word}{_(': ')}{amount}" for word, amount in amounts.items())


def part_words() -> dict[str, str]:
    """Return the labels of the parts."""
    return {
        "allocated": _("Allocated"),
        "borrowed": _("Borrowed"),
        "lent": _("Lent"),
        "free": _("Free"),
    }


def _draw(one: QuotaSlice, measure: str) -> _Drawn:
    found = _Drawn(one)
    if measure == USED:
        part = found.own if one.is_folder else found.parts
        part[_UNDIVIDED] = (one.own_nominal if one.is_folder else one.nominal) or 0
    elif measure == ALLOCATED:
        if not one.is_folder:
            found.parts = Counter(allocated=one.allocated, borrowed=one.borrowed)
    elif not one.is_folder:
        if one.nominal is not None:
            found.parts = Counter(allocated=one.allocated, lent=one.lent, free=one.free)
    elif one.own_nominal is not None:
        found.own = Counter(allocated=one.own_in_use, free=one.own_nominal - one.own_in_use)
    return found


def _smallest(drawn: dict[uuid.UUID, _Drawn]) -> set[uuid.UUID]:
    """Return the workspaces beyond those that fit into a diagram."""
    workspaces = [pk for pk, found in drawn.items() if not found.one.is_folder and found.one.parent_id]
    ordered = sorted(workspaces, key=lambda pk: drawn[pk].parts.total(), reverse=True)
    return set(ordered[TENANTS_MAX:])


def _parts(above: str, parts: Counter[str], words: dict[str, str], unit: int) -> Iterator[Sector]:
    for name, amount in parts.items():
        if amount and name != _UNDIVIDED:
            yield Sector(
                key=f"{above}.{name}",
                parent=above,
                label=words[name],
                value=amount / unit,
                color=_COLORS[name],
            )


def table_rows(slices: Sequence[QuotaSlice], column: TreeColumn, used: Used) -> list[list[str]]:
    """Return the rows of the text alternative of all slices, indented by level."""
    depths: dict[uuid.UUID, int] = {}
    rows = []
    for one in slices:
        depth = depths[one.node_id] = depths[one.parent_id] + 1 if one.parent_id in depths else 0
        free = None if one.nominal is None else one.free
        amounts = [one.nominal, one.allocated + one.borrowed, one.borrowed, one.lent, free]
        texts = [column.format_amount(amount) for amount in amounts]
        texts.insert(2, format_used(used[one.node_id], column.format_amount))
        rows.append(["\u2003" * depth + one.name, *texts])
    return rows


def picture_flows(
    slices: Sequence[QuotaSlice], flows: Sequence[QuotaFlow], column: TreeColumn
) -> tuple[list[tuple[str, str, str]], list[FlowBand]]:
    """Return the ends and the flows between them, without the smallest flows if there are too many ends."""
    names = {one.node_id: one for one in slices}
    shown = sorted(flows, key=lambda flow: flow.amount, reverse=True)[:ENDS_MAX]
    ends: dict[str, tuple[str, str, str]] = {}
    found = []
    for flow in shown:
        for end in (flow.source, flow.target):
            key = _end_key(end)
            ends.setdefault(key, (key, _end_label(end, names), _end_color(flow, end, names)))
        color = "lent-area" if flow.is_lent else "borrowed-area"
        found.append(
            FlowBand(
                source=_end_key(flow.source),
                target=_end_key(flow.target),
                value=flow.amount / column.unit,
                color=color,
            )
        )
    return list(ends.values()), found


def flow_rows(
    slices: Sequence[QuotaSlice], flows: Sequence[QuotaFlow], column: TreeColumn
) -> list[list[str]]:
    """Return the rows of the text alternative of all flows, largest first."""
    names = {one.node_id: one for one in slices}
    ordered = sorted(flows, key=lambda flow: flow.amount, reverse=True)
    return [
        [
            f"{_end_label(flow.source, names)} → {_end_label(flow.target, names)}",
            column.format_amount(flow.amount),
        ]
        for flow in ordered
    ]


End = tuple[FlowSide, uuid.UUID] | uuid.UUID


def _end_key(end: End) -> str:
    return f"{end[0].value}.{end[1]}" if isinstance(end, tuple) else str(end)


def _end_label(end: End, names: dict[uuid.UUID, QuotaSlice]) -> str:
    if not isinstance(end, tuple):
        one = names[end]
        return _("Shared in %(name)s") % {"name": one.name} if one.is_folder else one.name
    side, node = end
    if side is FlowSide.UNASSIGNED:
        return _("Unassigned quota of %(name)s") % {"name": names[node].name}
    return _("Other tenants") if side is FlowSide.OTHERS else _("Over quota")


def _end_color(flow: QuotaFlow, end: End, names: dict[uuid.UUID, QuotaSlice]) -> str:
    if isinstance(end, tuple):
        return {FlowSide.UNASSIGNED: "lent", FlowSide.OTHERS: "foreign", FlowSide.OVER_QUOTA: "unhealthy"}[
            end[0]
        ]
    if names[end].is_folder:
        return "held"
    return "lent" if end == flow.source else "borrowed"


def summary_of(slices: Sequence[QuotaSlice], column: TreeColumn, title: str, used: Used) -> str:
    """Return the diagram in one sentence: sums of the topmost tenants."""
    tops = [one for one in slices if one.parent_id is None]
    facts = [
        f"{one.name}{_(': ')}"
        + _(
            "%(nominal)s %(unit)s nominal, %(allocated)s allocated, %(used)s used, %(borrowed)s borrowed, "
            "%(lent)s lent"
        )
        % {
            "used": format_used(used[one.node_id], column.format_amount),
            "nominal": column.format_amount(one.nominal),
            "unit": column.unit_word,
            "allocated": column.format_amount(one.allocated + one.borrowed),
            "borrowed": column.format_amount(one.borrowed),
            "lent": column.format_amount(one.lent),
        }
        for one in tops[:5]
    ]
    return f"{title} · {_('; ').join(facts)}" if facts else formats.MISSING
