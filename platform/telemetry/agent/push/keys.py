"""The key of the node: from a file, or in exchange for the token of the agent's service account."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from telemetry.agent.push.requests import Platform

log = logging.getLogger(__name__)
PATH: Final = "/api/v1/agent/keys"
_CREATED: Final = (200, 201)
_RENEW_SHARE: Final = 0.2
"""The share of a key's lifetime that is left when the key is renewed."""


class NoKey(Exception):
    """No key is available now; the message gives the reason."""


class KeySource(Protocol):
    """A source of the node's key."""

    def read_key(self) -> str:
        """Return the key to use now. Raises: NoKey, Unreachable."""

    def discard_key(self) -> None:
        """Discard a key that the platform refused."""


@dataclass(slots=True)
class FileKey:
    """A key that an operator created and put into a file, which is read each time."""

    file: Path

    def read_key(self) -> str:
        """Return the key in the file. Raises: NoKey."""
        return _read_secret(self.file)

    def discard_key(self) -> None:
        """Do nothing: the file is read again."""


@dataclass(slots=True)
class ExchangedKey:
    """A key that the platform issues in exchange for the token of the agent's service account.

    The kubelet renews the token in its file. `wall`: a clock in seconds since 1970.
    """

    platform: Platform
    cluster: str
    node: str
    token_file: Path
    wall: Callable[[], float]
    _key: str = ""
    _renew_at: float = 0.0

    def read_key(self) -> str:
        """Return the key, a new one if the old one ends soon. Raises: NoKey, Unreachable."""
        if not self._key or self.wall() >= self._renew_at:
            self._exchange()
        return self._key

    def discard_key(self) -> None:
        """Discard the key, so that the next call requests a new one."""
        self._key = ""

    def _exchange(self) -> None:
        body = json.dumps({"cluster": self.cluster, "node": self.node}).encode()
        answer = self.platform.post(PATH, body, token=_read_secret(self.token_file))
        key = answer.body.get("key")
        if answer.status not in _CREATED or not isinstance(key, str) or not _is_secret(key):
            raise NoKey(f"the platform gives this node no key: {answer.text}")
        now = self.wall()
        expires_at = _parse_time(answer.body.get("expires_at"))
        self._key = key
        self._renew_at = expires_at - _RENEW_SHARE * (expires_at - now) if expires_at else float("inf")
        log.info("the platform gave this node a key")


def _read_secret(file: Path) -> str:
    try:
        secret = file.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise NoKey(f"{file} can't be read: {error}") from error
    if not _is_secret(secret):
        raise NoKey(f"{file} holds no key")
    return secret


def _is_secret(text: str) -> bool:
    """Return whether a text is valid in a header."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _parse_time(value: Any) -> float | None:
    """Return the seconds since 1970 of an ISO time or of milliseconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1000
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
