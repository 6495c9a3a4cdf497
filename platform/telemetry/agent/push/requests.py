"""Requests to the platform, each with a time limit; redirects are not followed, long answers not read."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

_CALL_S: Final = 10.0
_LONGEST: Final = 1 << 20


class Unreachable(ConnectionError):
    """The platform sent no answer."""


@dataclass(frozen=True, slots=True)
class PlatformAnswer:
    """An answer of the platform. `body` is empty if it was no JSON object."""

    status: int
    body: Mapping[str, Any]
    retry_after_s: float | None = None

    @property
    def text(self) -> str:
        """The platform's message, for the log."""
        reason = self.body.get("detail") or self.body.get("title") or ""
        fields = self.body.get("errors") or ""
        return f"{self.status} {str(reason)[:300]} {str(fields)[:300]}".rstrip()


@dataclass(frozen=True, slots=True)
class Platform:
    """The platform at `url`. `certificate_file`: its authority, None for those of the system."""

    url: str
    certificate_file: Path | None = None

    def post(self, path: str, body: bytes, *, token: str, gzipped: bool = False) -> PlatformAnswer:
        """Send JSON. Raises: Unreachable."""
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json",
        }
        if gzipped:
            headers["Content-Encoding"] = "gzip"
        try:
            address = urlsplit(self.url)
            with closing(self._connect(address.scheme, address.hostname or "", address.port)) as connection:
                connection.request("POST", address.path.rstrip("/") + path, body, headers)
                answer = connection.getresponse()
                text = answer.read(_LONGEST)
                retry_after = _seconds(answer.getheader("Retry-After"))
                return PlatformAnswer(answer.status, _json_object(text), retry_after)
        except (OSError, HTTPException, ValueError) as error:
            raise Unreachable(f"{self.url}: {error or type(error).__name__}") from error

    def _connect(self, scheme: str, host: str, port: int | None) -> HTTPConnection:
        if scheme == "http":
            return HTTPConnection(host, port, timeout=_CALL_S)
        cafile = str(self.certificate_file) if self.certificate_file else None
        context = ssl.create_default_context(cafile=cafile)
        return HTTPSConnection(host, port, timeout=_CALL_S, context=context)


def _json_object(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _seconds(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:  # an HTTP date
        return None
