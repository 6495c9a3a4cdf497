"""The exceptions of the client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """The error of one field, such as `roles.0.image`."""

    field: str
    code: str
    message: str


class ClientError(Exception):
    """The base of all exceptions of this client."""


class ConfigurationError(ClientError):
    """The server's address or the key is missing or cannot be read; the message says what to set."""


class ServerUnreachable(ClientError):
    """The server did not respond to any try. Whether a write took effect is not known."""


class DeadlineExceeded(ClientError):
    """The deadline passed before the job reached a wanted state; `state` is the last one seen."""

    def __init__(self, message: str, state: str) -> None:
        super().__init__(message)
        self.state = state


class Problem(ClientError):
    """The server refused (RFC 9457). `code` is stable; `detail` is a sentence in the reader's language."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(body.get("code", "ERROR"))
        self.detail = str(body.get("detail") or body.get("title") or f"HTTP {status}")
        self.errors = tuple(_field(error) for error in body.get("errors") or ())
        self.body = dict(body)
        super().__init__(self.full_text())

    def full_text(self) -> str:
        """Return the sentence, the code, and a line for each invalid field."""
        lines = [f"{self.detail} ({self.code})"]
        lines += [f"  {error.field or 'file'}: {error.message}" for error in self.errors]
        return "\n".join(lines)


def _field(error: Mapping[str, Any]) -> FieldProblem:
    return FieldProblem(
        str(error.get("field", "")), str(error.get("code", "")), str(error.get("message", ""))
    )
