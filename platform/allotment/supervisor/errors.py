"""The error of a refused start."""

from __future__ import annotations


class StartError(Exception):
    """The platform cannot start here; the message is one line that says what to do."""
