"""The filter builder: the conditions of the address as text, and a new one from the form's three fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from foundation.core.errors import Invalid
from foundation.web.listing import OPERATORS, ColumnCondition, ColumnKind, parse_condition, split_condition
from frontend.lists.declaration import FilterField, ListDeclaration

PARAMETER: Final = "filterBy"
MOST: Final = 20
"""The maximum number of conditions, that of the REST API."""
_LONGEST_VALUE: Final = 60
FIELD, OPERATOR, VALUE = "field", "operator", "value"
WORDS: Final[Mapping[str, str | Promise]] = {
    "==": pgettext_lazy("filter operator", "is"),
    "!=": pgettext_lazy("filter operator", "is not"),
    "=@": pgettext_lazy("filter operator", "contains"),
    "!@": pgettext_lazy("filter operator", "doesn't contain"),
    "=^": pgettext_lazy("filter operator", "starts with"),
    "=$": pgettext_lazy("filter operator", "ends with"),
    ">=": pgettext_lazy("filter operator", "at least"),
    "<=": pgettext_lazy("filter operator", "at most"),
}
_TIME_WORDS: Final[Mapping[str, str | Promise]] = {
    ">=": pgettext_lazy("filter operator", "from"),
    "<=": pgettext_lazy("filter operator", "until"),
}
_LIST_WORDS: Final[Mapping[str, str | Promise]] = {
    "==": pgettext_lazy("filter operator", "is any of"),
    "!=": pgettext_lazy("filter operator", "is none of"),
}
_FLAGS: Final = (("true", gettext_lazy("Yes")), ("false", gettext_lazy("No")))


@dataclass(frozen=True, slots=True)
class ShownCondition:
    """A condition as text; `value_time` is an ISO time that the browser writes in the reader's zone."""

    label: str
    operator: str
    value: str
    url: str
    value_time: str = ""


@dataclass(frozen=True, slots=True)
class OfferedField:
    """A field of the builder with its operators, their words, and the values to choose from."""

    name: str
    label: str
    kind: str
    operators: Sequence[tuple[str, str]]
    choices: Sequence[tuple[str, str]]
    suggestions: str = ""


def read_conditions(query: QueryDict, declared: ListDeclaration) -> tuple[list[ColumnCondition], list[str]]:
    """Return the conditions of the address, and a sentence for each that cannot be applied."""
    found, problems = [], []
    for text in query.getlist(PARAMETER)[:MOST]:
        try:
            found.append(parse_condition(text, declared.fields))
        except Invalid as error:
            problems.append(error.detail)
    return found, problems


def refuse_values(query: QueryDict, accepted: Mapping[str, Iterable[str]]) -> list[str]:
    """Return a sentence for each parameter with a value that is not accepted; a minus reverses an order."""
    found = []
    for name, values in accepted.items():
        value = query.get(name, "")
        if value and (value.removeprefix("-") if name == "sort" else value) not in values:
            words = {"name": name, "value": value[:_LONGEST_VALUE], "values": _(", ").join(values)}
            found.append(_("Unknown value %(name)s=%(value)s. Valid: %(values)s.") % words)
    return found


def shown_conditions(query: QueryDict, declared: ListDeclaration) -> list[ShownCondition]:
    """Return the conditions of the address as text, each with the address without it."""
    texts = query.getlist(PARAMETER)[:MOST]
    shown = []
    for place, text in enumerate(texts):
        rest = query.copy()
        rest.pop("page", None)
        rest.setlist(PARAMETER, [*texts[:place], *texts[place + 1 :]])
        url = f"?{rest.urlencode()}"
        parts = split_condition(text)
        if parts is None:
            shown.append(ShownCondition(text, "", "", url))
            continue
        name, operator, value = parts
        offered = declared.filters.get(name)
        column = declared.fields.get(name)
        kind = column.kind if column is not None else ColumnKind.TEXT
        shown.append(
            ShownCondition(
                label=str(offered.label) if offered else name,
                operator=operator_word(kind, operator),
                value=_value_word(offered, kind, value),
                url=url,
                value_time=value if kind is ColumnKind.TIME else "",
            )
        )
    return shown


def _value_word(offered: FilterField | None, kind: ColumnKind, value: str) -> str:
    choices = _FLAGS if kind is ColumnKind.FLAG else (offered.choices if offered else ())
    return next((str(word) for key, word in choices if key == value), value)


def operator_word(kind: ColumnKind, operator: str) -> str:
    """Return the word of an operator for values of a kind."""
    words = {ColumnKind.TIME: _TIME_WORDS, ColumnKind.LIST: _LIST_WORDS}.get(kind, WORDS)
    return str(words.get(operator) or WORDS[operator])


def offered_fields(declared: ListDeclaration) -> list[OfferedField]:
    """Return the fields of the builder."""
    return [
        OfferedField(
            name=name,
            label=str(offered.label),
            kind=(kind := declared.fields[name].kind).value,
            operators=[
                (operator, operator_word(kind, operator))
                for operator in WORDS
                if operator in OPERATORS[kind] and not (kind is ColumnKind.TIME and operator in ("==", "!="))
            ],
            choices=[
                (value, str(word)) for value, word in (_FLAGS if kind is ColumnKind.FLAG else offered.choices)
            ],
            suggestions=offered.suggestions,
        )
        for name, offered in declared.filters.items()
    ]


def add_condition(query: QueryDict, declared: ListDeclaration) -> tuple[QueryDict, str] | None:
    """Return the address with the condition of the form and an empty text, or without it and the reason.

    Returns None without a filled form.
    """
    name, operator, value = (query.get(part, "").strip() for part in (FIELD, OPERATOR, VALUE))
    if FIELD not in query:
        return None
    rest = query.copy()
    for part in (FIELD, OPERATOR, VALUE, "page"):
        rest.pop(part, None)
    if not value:
        return rest, _("Enter a value to filter by.")
    text = f"{name}{operator}{value}"
    try:
        parse_condition(text, declared.fields)
    except Invalid as error:
        return rest, error.detail
    if text not in rest.getlist(PARAMETER):
        rest.appendlist(PARAMETER, text)
    return rest, ""
