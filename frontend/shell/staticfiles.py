"""Serves single files that Python packages carry, so that nothing is copied into the repository.

plotly.js comes with the plotly package: its version then always fits the Python side that builds
the figures, and an upgrade of one is an upgrade of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.checks import CheckMessage
from django.core.files.storage import FileSystemStorage, Storage

# address below STATIC_URL -> package and the file's path inside it
PACKAGE_FILES = {
    "vendor/plotly.min.js": ("plotly", "package_data/plotly.min.js"),
}

# Aliased because the finder's own `list` method hides the built-in in its class body.
_Messages = list[CheckMessage]


class _OneFileStorage(FileSystemStorage):
    """Knows a package's file under its public name."""

    def __init__(self, public: str, file: Path) -> None:
        super().__init__(location=file.parent)
        self._public, self._file = public, file

    def path(self, name: str) -> str:
        return str(self._file) if name == self._public else super().path(name)


class PackageFilesFinder(BaseFinder):
    """A staticfiles finder for `PACKAGE_FILES`; a package that is not installed is skipped."""

    def check(self, **kwargs: Any) -> _Messages:
        return []

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        file = _file_of(path)
        if find_all:
            return [str(file)] if file else []
        # An empty list, not None: Django collects whatever else comes back as a match.
        return str(file) if file else []

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Storage]]:
        for public in PACKAGE_FILES:
            if file := _file_of(public):
                yield public, _OneFileStorage(public, file)


def _file_of(public: str) -> Path | None:
    if public not in PACKAGE_FILES:
        return None
    package, inner = PACKAGE_FILES[public]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).parent / inner
    return file if file.is_file() else None
