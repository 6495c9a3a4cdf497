"""The kubeconfig files that a platform admin may choose in the console.

Only files in ALLOTMENT_KUBECONFIG_DIR can be chosen: with a free path, an admin of the platform could read
any file of the server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from django.conf import settings
from django.utils.translation import gettext as _

from foundation.core.errors import FieldError, Invalid

FILES_MAX: Final = 100


def list_kubeconfig_files() -> list[str]:
    """Return the names of the files, sorted; none if the folder doesn't exist."""
    folder = Path(settings.ALLOTMENT_KUBECONFIG_DIR)
    try:
        names = [file.name for file in folder.iterdir() if file.is_file() and not file.name.startswith(".")]
    except OSError:
        return []
    return sorted(names)[:FILES_MAX]


def kubeconfig_connection(name: str, context: str = "") -> dict[str, str]:
    """Return the connection by one of these files. Raises: Invalid naming `file` for any other."""
    if name not in list_kubeconfig_files():
        message = _("Select a file.")
        raise Invalid(message, errors=[FieldError("file", "UNKNOWN", message)])
    connection = {"kind": "kubeconfig", "path": str(Path(settings.ALLOTMENT_KUBECONFIG_DIR) / name)}
    return connection | ({"context": context} if context else {})
