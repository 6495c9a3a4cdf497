"""The roles that somebody holds, read in one query and remembered while one request lasts.

Everything that asks "may I" within a request asks about the same person, so their grants are read once.
They are remembered only between two writes of the same request: as soon as a membership, group, role or
tenant is written in it, each question reads afresh until the request ends, because the transaction of
that write may still be undone. Outside a request (workers, commands, streams) nothing is remembered.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

from django.db.models import QuerySet

from foundation import row_scope
from foundation.actor import Actor
from foundation.kept import Kept
from tenants.models import Member
from tenants.points import ROLE_PERMISSIONS, Permission, points_of


@dataclass(frozen=True, slots=True)
class Grant:
    """One role of one actor.

    `path` is that of the tenant it stands on, None on the platform. `role` is the built-in role's word or
    the custom one's name. `group` names the group through which it came, or is empty.
    """

    member_id: uuid.UUID
    tenant_id: uuid.UUID | None
    path: str | None
    role: str
    points: frozenset[Permission]
    group: str

    def counts_on(self, path: str | None) -> bool:
        """Whether it holds for the tenant with that path; None asks about the platform."""
        return self.path is None or (path is not None and path.startswith(self.path))


@dataclass(slots=True)
class _Memory:
    grants: dict[uuid.UUID, tuple[Grant, ...]] = field(default_factory=dict)
    written: bool = False


_memory: ContextVar[_Memory | None] = ContextVar("grants", default=None)


@contextmanager
def remembered() -> Iterator[None]:
    """Remember grants inside; one request each."""
    token = _memory.set(_Memory())
    try:
        yield
    finally:
        _memory.reset(token)


def forget() -> None:
    """Something that grants depend on is being written: stop remembering."""
    memory = _memory.get()
    if memory is not None:
        memory.written = True
        memory.grants.clear()


def grants_of(actor: Actor) -> tuple[Grant, ...]:
    """All roles of `actor`, by groups as well, in a fixed order. Somebody without an account has none."""
    if actor.pk is None:
        return ()
    memory = _memory.get()
    if memory is None or memory.written:
        return _read(actor.pk)
    if actor.pk not in memory.grants:
        memory.grants[actor.pk] = _read(actor.pk)
    return memory.grants[actor.pk]


_COLUMNS: Final = (
    "pk",
    "tenant_id",
    "tenant__path",
    "role",
    "custom_role__name",
    "custom_role__points",
    "group__name",
)


def _of(user_id: uuid.UUID) -> QuerySet[Member, tuple[Any, ...]]:
    # Two halves of a union: each is read from an index, which a condition on either of two tables is not.
    own = Member.unscoped.filter(user_id=user_id).order_by().values_list(*_COLUMNS)
    by_group = Member.unscoped.filter(group__people__user_id=user_id).order_by().values_list(*_COLUMNS)
    return own.union(by_group, all=True)


_HELD: Final = Kept(_of)


@row_scope.whole()
def _read(user_id: uuid.UUID) -> tuple[Grant, ...]:
    return tuple(
        Grant(
            member_id=pk,
            tenant_id=tenant_id,
            path=path,
            role=role or name,
            points=ROLE_PERMISSIONS[role] if role else points_of(points),
            group=group or "",
        )
        for pk, tenant_id, path, role, name, points, group in sorted(_HELD(user_id), key=itemgetter(0))
    )
