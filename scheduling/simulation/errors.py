"""Errors in the input of an offline command."""

from __future__ import annotations

from pathlib import Path


class InputError(ValueError):
    """Invalid input; the message is one line with file, line and field, if they are known."""

    def __init__(self, message: str, *, file: Path | None = None, line: int = 0, field: str = "") -> None:
        place = [str(file)] if file is not None else []
        if line:
            place.append(f"line {line}")
        if field:
            place.append(f"field {field}")
        super().__init__(f"{', '.join(place)}: {message}" if place else message)


class UsageError(ValueError):
    """An option that is invalid, alone or together with others."""
