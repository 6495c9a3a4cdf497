"""The subject of an API answer: the object that was sent, the platform's rights, or the cluster."""

from __future__ import annotations

import re
from typing import Final

TOO_LARGE: Final = 413
_FORBIDDEN: Final = 403
# etcd refuses a request above 1.5 MiB, and the API server's own client one above 2 MiB before it is sent. The
# API server returns either error as its own, with the status 500.
_OVERSIZE: Final = re.compile(r"request is too large|larger than max|Request entity too large", re.IGNORECASE)
# The authorizer's message is `User "x" cannot create resource "pods" in API group "" …`; the others are those
# of admission plug-ins of an API server that has just started.
_RIGHTS: Final = re.compile(
    r'User "[^"]*" cannot \S+ (?:resource|path)|not yet ready to handle request|status unknown for quota'
)


def is_too_large(message: str) -> bool:
    """Return whether an error says that the object is larger than the cluster stores."""
    return _OVERSIZE.search(message) is not None


def is_denied(status: int, message: str) -> bool:
    """Return whether a refusal is about the platform's rights, or about an API server that is starting,
    and not about the object.
    """
    return status == _FORBIDDEN and _RIGHTS.search(message) is not None
