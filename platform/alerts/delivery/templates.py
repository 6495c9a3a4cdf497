"""Templates of notifications: text with variables in braces, such as `{rule}`.

A variable is a name and nothing else: no attribute, index, conversion or format, so a template reaches no
more than the values that it is given.
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
    """The templates of a channel; an empty one is the usual text."""

    title: str = ""
    body: str = ""

    @classmethod
    def of_channel(cls, channel: NotificationChannel) -> MessageTemplates:
        """Return the templates of a channel."""
        return cls(channel.title_template, channel.body_template)


def find_problem(template: str) -> str:
    """Return why a text can't be a template; empty for one that can."""
    try:
        unknown = [name for name in _list_fields(template) if name not in VARIABLES]
    except ValueError:
        return _("Unmatched brace. Write {{ or }} for a brace.")
    if unknown:
        words = {"name": unknown[0][:50], "names": ", ".join(VARIABLES)}
        return _("Unknown variable %(name)s. Valid: %(names)s.") % words
    return ""


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Return a text with the values of its variables. Raises: ValueError for one that is no template."""
    filled = []
    for literal, name, spec, conversion in Formatter().parse(template):
        filled.append(literal)
        if name is not None:
            if spec or conversion or name not in values:
                raise ValueError(name)
            filled.append(values[name])
    return "".join(filled)


def _list_fields(template: str) -> Iterator[str]:
    """Yield each variable as it is written, with what would follow its name. Raises: ValueError."""
    for _literal, name, spec, conversion in Formatter().parse(template):
        if name is not None:
            yield name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
