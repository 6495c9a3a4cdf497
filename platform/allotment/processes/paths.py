"""The paths of an installation's files. Without Django, because the supervisor and the settings share it.

Both must find the same broker socket without communicating, so that a management command typed in a second
terminal reaches the running platform. Hence these are pure functions of the home folder.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

DEFAULT_HOME: Final = ".allotment"
# The kernel's sun_path holds 108 bytes with the final NUL; Valkey and Python both refuse more.
SOCKET_PATH_LIMIT: Final = 107


def find_home_folder() -> Path:
    """Return the absolute folder of this installation: `ALLOTMENT_HOME`, else `./.allotment`."""
    chosen = os.environ.get("ALLOTMENT_HOME") or DEFAULT_HOME
    return Path(chosen).expanduser().absolute()


def broker_socket(base: Path) -> Path:
    """The unix socket of the bundled broker for the installation in `base`.

    The path below a deep home would exceed the kernel's limit; the socket is then in a short private folder
    whose name is derived from the home, so that every process finds the same socket.
    """
    socket = base / "run" / "broker.sock"
    if len(os.fsencode(socket)) <= SOCKET_PATH_LIMIT:
        return socket
    digest = hashlib.sha256(os.fsencode(base)).hexdigest()[:16]
    return _runtime_folder() / f"allotment-{os.getuid()}-{digest}" / "broker.sock"


def broker_url(base: Path) -> str:
    """The Celery address of the bundled broker for the installation in `base`."""
    return f"redis+socket://{broker_socket(base)}"


def _runtime_folder() -> Path:
    chosen = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp")  # noqa: S108 - the folder below is 0700 and ours
    usable = (
        chosen.is_dir() and os.access(chosen, os.W_OK) and len(os.fsencode(chosen)) < SOCKET_PATH_LIMIT // 2
    )
    return chosen if usable else Path("/tmp")  # noqa: S108
