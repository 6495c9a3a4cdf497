"""Templates of notifications: text with variables in braces, such as `{rule}`.

A variable is only a name, without attribute, index, conversion or format, so a template can read only the
values passed to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Final

from django.utils.translation import gettext as _

from alerts.models import NotificationChannel

VARIABLES: Final = (
    *("severity", "state", "rule", "subject", "tenant", "cluster"),
    *("condition", "value", "fired_at", "resolved_at", "url"),
)
TITLE_MAX: Final = 200
BODY_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class MessageTemplates:
    """The templates of a channel; "" is the default text."""

    title: str = ""
    body: str = ""

    @classmethod
    def of_channel(cls, channel: NotificationChannel) -> MessageTemplates:
        """Return the templates of a channel."""
        return cls(channel.title_template, channel.body_template)


def find_problem(template: str) -> str:
    """Return why a text can't be a template; "" for a valid one."""
    try:
        unknown = [name for name in _list_fields(template) if name not in VARIABLES]
    except ValueError:
        return _("Unmatched brace. Write {{ or }} for a brace.")
    if unknown:
        words = {"name": unknown[0][:50], "names": ", ".join(VARIABLES)}
        return _("Unknown variable %(name)s. Valid: %(names)s.") % words
    return ""


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Return a text with the values of its variables. Raises: ValueError for an invalid template."""
    filled = []
    for literal, name, spec, conversion in Formatter().parse(template):
        filled.append(literal)
        if name is not None:
            if spec or conversion or name not in values:
                raise ValueError(name)
            filled.append(values[name])
    return "".join(filled)


def _list_fields(template: str) -> Iterator[str]:
    """Yield each variable as written, with the text after its name. Raises: ValueError."""
    for _literal, name, spec, conversion in Formatter().parse(template):
        if name is not None:
            yield name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
