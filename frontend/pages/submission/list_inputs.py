"""The lists of a job file that the form shows in one input each: claims by line, and the number of retries.

An input shows the entries that it can express; the others stay in the file unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

LABELS: Final[Mapping[str, str | Promise]] = {
    "volumes": gettext_lazy("Volumes"),
    "lifecycle": gettext_lazy("Retries after failure"),
}
HELPS: Final[Mapping[str, str | Promise]] = {
    "volumes": gettext_lazy("One CLAIM:/PATH per line; add :ro for read-only"),
    "lifecycle": gettext_lazy("A failed job returns to its queue up to this many times."),
}
_ACCESS: Final = {"": {}, "ro": {"read_only": True}, "rw": {}}
_RETRY: Final = {"on": "task_failed", "do": "restart_job"}


def show_entries(path: str, entries: Sequence[Any]) -> tuple[str, list[int]]:
    """Return the input's text for a list of the file, and the positions of the entries in that text."""
    if path == "lifecycle":
        places = [place for place, entry in enumerate(entries) if _is_retry(entry)][:1]
        return "".join(str(entries[place].get("max", 1)) for place in places), places
    lines = [_volume_line(entry) for entry in entries]
    return "\n".join(filter(None, lines)), [place for place, line in enumerate(lines) if line]


def read_entries(path: str, text: str) -> list[dict[str, Any]]:
    """Return the entries of an input's text; `find_mistakes` reports invalid lines."""
    if path == "lifecycle":
        number = text.strip()
        limit = int(number) if number.isdecimal() and len(number) < 10 else number
        return [{**_RETRY, "max": limit}] if limit not in ("", 0) else []
    volumes = [_read_volume(line) for line in text.splitlines()]
    return [volume for volume in volumes if volume]


def find_mistakes(path: str, text: str) -> list[str]:
    """Return an error message for each invalid line."""
    if path == "lifecycle":
        return []
    wrong = [line.strip() for line in text.splitlines() if line.strip() and _read_volume(line) is None]
    sentence = _("Use CLAIM:/PATH or CLAIM:/PATH:ro, for example data:/data:ro, instead of: %(line)s")
    return [sentence % {"line": line[:60]} for line in wrong]


def carry_entries(path: str, source: Sequence[Any], before: str, after: str) -> list[Any]:
    """Return the list `source` with the entered entries: equal entries stay, different ones are replaced."""
    typed, old = read_entries(path, after), read_entries(path, before)
    changed: set[int] = set()
    for place, entry in zip(show_entries(path, source)[1], old, strict=True):
        if entry in typed:
            typed.remove(entry)
        else:
            changed.add(place)
    found: list[Any] = []
    for place, entry in enumerate(source):
        if place not in changed:
            found.append(entry)
        elif typed:
            found.append(typed.pop(0))
    return [*found, *typed]


def _is_retry(entry: Any) -> bool:
    if not isinstance(entry, Mapping) or not entry.keys() <= {*_RETRY, "max"}:
        return False
    limit = entry.get("max", 1)
    whole = isinstance(limit, int) and not isinstance(limit, bool) and 0 < limit < 10**9
    return whole and all(entry.get(key) == value for key, value in _RETRY.items())


def _volume_line(entry: Any) -> str:
    """Return the line of a claim; empty for a volume that a line cannot express."""
    if not isinstance(entry, Mapping) or not entry.keys() <= {"claim", "mount", "read_only"}:
        return ""
    access = entry.get("read_only", False)
    line = f"{entry.get('claim')}:{entry.get('mount')}{':ro' if access is True else ''}"
    written = {key: value for key, value in entry.items() if value is not False}
    return line if line.isprintable() and _read_volume(line) == written else ""


def _read_volume(line: str) -> dict[str, Any] | None:
    claim, _colon, rest = line.strip().partition(":")
    mount, _colon, access = rest.partition(":")
    if not claim or not mount or access not in _ACCESS or (_colon and not access):
        return None
    return {"claim": claim, "mount": mount, **_ACCESS[access]}
