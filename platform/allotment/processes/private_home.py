"""Restricts the home of an embedded installation to its owner. Without Django, like `paths`."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

UMASK: Final = 0o077
_OTHERS: Final = 0o077
_FILES: Final = ("secret-key*", "first-sign-in.json", "allotment.sqlite3*", "beat-schedule*", "*.lock")
_FOLDERS: Final = ("broker", "logs", "run")


def make_home_private(home: Path) -> None:
    """Create the home for its owner only, and close files that an earlier version left open to others.

    A folder that is used for other files as well (the user's own home, `/tmp`) keeps its mode; the files of
    the platform in it are closed. Raises: OSError, also for files that belong to another user and are open to
    others.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _is_own(home):
        _close(home)
    for path in _files_of(home):
        _close(path)


def _is_own(home: Path) -> bool:
    shared = home.stat().st_mode & stat.S_ISVTX or home in (Path.home(), Path(home.anchor))
    return not shared and ((home / "secret-key").exists() or not any(home.iterdir()))


def _files_of(home: Path) -> Iterator[Path]:
    for pattern in _FILES:
        yield from home.glob(pattern)
    for name in _FOLDERS:
        folder = home / name
        if folder.is_dir() and not folder.is_symlink():
            yield folder
            yield from folder.rglob("*")


def _close(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
        if mode & _OTHERS and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    except FileNotFoundError:
        return  # a broker log or rewrite file that was just replaced


def create_privately() -> None:
    """Make this process and its children create files for their owner only."""
    os.umask(UMASK)
