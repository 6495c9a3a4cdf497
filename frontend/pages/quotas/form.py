"""The form of one node in one pool: every limit is text, because both `unlimited` and 0 are valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.utils.translation import gettext as _

from foundation.core.errors import FieldError, Invalid
from foundation.core.numbers import read_whole
from foundation.core.quantities import Resource
from frontend.pages.quotas.rows import TITLES
from frontend.pages.quotas.typed_amounts import TYPED_UNITS, describe_invalid, format_typed, read_typed
from frontend.texts import formats
from quotas.distribution.division import Keep
from quotas.selectors.limits.pool_limits import PoolLimits
from quotas.services.quota import Shrink
from quotas.services.quota_files.pool_form import amounts_of_gpus
from quotas.services.quota_plan import QuotaAmount

LIMITS: Final = ("nominal", "borrowing_limit", "lending_limit")


@dataclass(frozen=True, slots=True)
class Box:
    """One limit as entered, with its `error`."""

    name: str
    label: str
    value: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class FormRow:
    """One resource with its limits."""

    resource: Resource
    title: str
    unit: str
    boxes: Sequence[Box]


@dataclass(frozen=True, slots=True)
class Typed:
    """The input of the whole form."""

    rows: Sequence[FormRow]
    reason: str = ""
    shrink: str = ""
    version: str = ""

    @property
    def choice(self) -> Shrink | None:
        return Shrink(self.shrink) if self.shrink in list(Shrink) else None

    def mark_errors(self, errors: Sequence[FieldError]) -> Typed:
        """Return the input with the errors at their boxes."""
        by_name = {error.field: error.message for error in errors}
        rows = [
            replace(row, boxes=[replace(box, error=by_name.get(box.name, "")) for box in row.boxes])
            for row in self.rows
        ]
        return replace(self, rows=rows)


def form_of(found: PoolLimits) -> Typed:
    """Return the form with the stored limits."""
    values = {
        f"{resource.value}.{limit}": format_limit(resource, getattr(found.limits[resource], limit))
        for resource in TITLES
        for limit in LIMITS
    }
    return Typed(_rows(values), version=str(found.node.version))


def read_form(data: Mapping[str, str]) -> Typed:
    """Return the form with the submitted limits."""
    values = {
        f"{r.value}.{limit}": data.get(f"{r.value}.{limit}", "").strip() for r in TITLES for limit in LIMITS
    }
    return Typed(_rows(values), data.get("reason", "")[:500], data.get("shrink", ""), data.get("version", ""))


def fill_gpus(data: Mapping[str, str], found: PoolLimits, *, only_more: bool = False) -> Typed:
    """Return the form as submitted, with the nominals of the number of whole GPUs in `gpus`.

    With `only_more` a nominal that is higher already is kept. Raises: Invalid for a text that is no number,
    and for a pool whose GPUs or nodes are not known.
    """
    gpus = read_whole(data.get("gpus", "").strip(), most=10**6)
    if gpus is None:
        raise Invalid(_("Enter a number of whole GPUs, for example 8."))
    filled = dict(data)
    for amount in amounts_of_gpus(found.node, found.flavor, gpus):
        now = found.limits[amount.resource].nominal
        more = now is not None and (not isinstance(amount.nominal, int) or amount.nominal > now)
        if not isinstance(amount.nominal, Keep) and (more or not only_more):
            filled[f"{amount.resource.value}.nominal"] = format_limit(amount.resource, amount.nominal)
    return read_form(filled)


def changed_amounts(typed: Typed, before: PoolLimits) -> list[QuotaAmount]:
    """Return the limits that differ from the stored ones.

    Raises: Invalid that names each box whose text is neither an amount nor `unlimited`.
    """
    errors: list[FieldError] = []
    found = []
    for row in typed.rows:
        was = before.limits[row.resource]
        limits = [
            _changed(row.resource, box, getattr(was, name), errors)
            for box, name in zip(row.boxes, LIMITS, strict=True)
        ]
        if any(not isinstance(limit, Keep) for limit in limits):
            nominal, borrowing, lending = limits
            place = f"{row.resource.value}."
            found.append(QuotaAmount(before.flavor, row.resource, nominal, borrowing, lending, place))
    if errors:
        raise Invalid(_("Some values are invalid."), errors=errors)
    return found


def _changed(resource: Resource, box: Box, was: int | None, errors: list[FieldError]) -> int | Keep | None:
    unlimited = box.value.lower() in formats.UNLIMITED_WORDS
    amount = None if unlimited else read_typed(resource, box.value)
    if amount is None and not unlimited:
        errors.append(FieldError(box.name, "AMOUNT", describe_invalid(resource)))
    return Keep.AS_IS if amount == was else amount


def _rows(values: Mapping[str, str]) -> list[FormRow]:
    labels = {
        "nominal": _("Nominal quota"),
        "borrowing_limit": _("Borrowing limit"),
        "lending_limit": _("Lending limit"),
    }
    return [
        FormRow(
            resource,
            str(title),
            str(TYPED_UNITS[resource]),
            [
                Box(name, f"{title}{_(': ')}{labels[limit]}", values[name])
                for limit in LIMITS
                for name in (f"{resource.value}.{limit}",)
            ],
        )
        for resource, title in TITLES.items()
    ]


def format_limit(resource: Resource, limit: int | None) -> str:
    """Return the text of a limit."""
    return _("unlimited") if limit is None else format_typed(resource, limit)
