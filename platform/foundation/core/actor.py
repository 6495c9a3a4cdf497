"""The user on whose behalf a service runs.

Services take `acting_user: Actor`: a signed-in user, or the platform itself when a sweep or the engine acts.
Request id and address are in a context variable set by the middleware, so that an audit record can name them
without every service passing them on.
"""

from __future__ import annotations

import uuid
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol


class Actor(Protocol):
    """The subject of an action: the user model satisfies this protocol, and so does `SYSTEM`."""

    @property
    def pk(self) -> uuid.UUID | None: ...

    def get_username(self) -> str: ...


@dataclass(frozen=True, slots=True)
class SystemActor:
    """The platform as the actor."""

    name: str = "allotment"
    pk: None = None

    def get_username(self) -> str:
        return self.name


SYSTEM = SystemActor()


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """The source of a request."""

    request_id: str = ""
    address: str = ""


origin: ContextVar[RequestOrigin] = ContextVar("origin", default=RequestOrigin())  # noqa: B039 (frozen, never mutated)
