"""Parses tags outside of a job file by the rules of its field."""

from __future__ import annotations

from typing import Any, Final

from foundation.core.errors import Invalid
from scheduling.job_file.declaration.fields import FIELDS
from scheduling.job_file.parsing.reading import read_field
from scheduling.job_file.values.section import Problems, Section

_FIELD: Final = FIELDS["tags"]
TAGS_LENGTH: Final = 1300
"""The length of a text with the largest number of tags of the largest length."""


def read_tags(names: Any) -> list[str]:
    """Check the tags of a job, and return each once.

    Raises: Invalid with the message of the first error, and all errors by field.
    """
    problems = Problems()
    found = read_field(Section({_FIELD.key: names}, "", problems), _FIELD.path)
    if problems.errors:
        raise Invalid(problems.errors[0].message, code="TAGS_INVALID", errors=problems.errors)
    return list(found)


def split_tags(text: str) -> list[str]:
    """Return the comma-separated tags of a text."""
    return [name for part in text.split(",") if (name := part.strip())]


def join_tags(names: Any) -> str:
    """Return tags as a text that `split_tags` reads."""
    return ", ".join(names)
