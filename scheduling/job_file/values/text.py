"""Converts YAML text to plain values, and finds the lines of its fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from django.utils.translation import gettext as _

from foundation.core.bounded_parsing import (
    Listing,
    Node,
    ParseBounds,
    TextError,
    YamlMapping,
    load_yaml,
    read_yaml,
)
from foundation.core.errors import FieldError, Invalid
from foundation.core.numbers import read_whole

JOB_BOUNDS: Final = ParseBounds(size=256 * 1024, nodes=20_000)


def load_text(text: str | bytes) -> dict[str, Any]:
    """Return the mapping of one YAML (or JSON) document.

    Raises: Invalid with code YAML_INVALID and the line, if it is known.
    """
    try:
        value = load_yaml(text, JOB_BOUNDS)
    except TextError as error:
        place = {"line": error.line, "problem": error.message}
        if error.line:
            message = _("Invalid YAML in line %(line)s: %(problem)s") % place
        else:
            message = _("Invalid YAML: %(problem)s") % place
        errors = [FieldError("", error.code, message)]
        raise Invalid(message, code="YAML_INVALID", errors=errors) from error
    if not isinstance(value, dict):
        raise Invalid(_("The file must be a map, for example name: my-job."), code="YAML_INVALID")
    return value


def find_lines(text: str, paths: Iterable[str]) -> list[int]:
    """Return the line of each field of a job file, counted from 1; a path is such as `roles.0.image`.

    For a missing field it is the line of the part that should contain it; 0 if the text has no such part.
    """
    try:
        root = read_yaml(text, JOB_BOUNDS)
    except TextError:
        root = None
    return [_find_line(root, path) for path in paths]


def _find_line(node: Node | None, path: str) -> int:
    line = 0
    for name in path.split("."):
        if isinstance(node, YamlMapping):
            found = [(key.line, value) for key, value in node.entries if key.text == name]
        elif isinstance(node, Listing):
            place = read_whole(name, most=len(node.values) - 1)
            found = [] if place is None else [(node.values[place].line, node.values[place])]
        else:
            found = []
        if not found:
            break
        line, node = found[-1]
    return line
