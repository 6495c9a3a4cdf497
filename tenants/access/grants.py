"""The roles that somebody holds, read in one query and remembered while one request lasts.

Everything that asks "may I" within a request asks about the same person, so their grants are read once.
They are remembered only between two writes of the same request: as soon as a membership, group, role or
tenant is written in it, each question reads afresh until the request ends, because the transaction of
that write may still be undone. Outside a request (workers, commands, streams) nothing is remembered.

A request by an access key with scopes is bounded by them: its owner's grants lose every point that the
scopes do not reach, so that whatever a service asks about the owner has the key's answer.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Final

from django.db.models import QuerySet

from foundation.core.actor import Actor
from foundation.sql import row_scope
from foundation.sql.prepared import PreparedQuery
from tenants.access.permission_points import ROLE_PERMISSIONS, Permission, points_of, reach_of
from tenants.models import Member, TenantKind


@dataclass(frozen=True, slots=True)
class Grant:
    """One role of one actor.

    `path` is that of the tenant it stands on, None on the platform; `on_workspace` is true if that is a
    workspace. `role` is the built-in role's word or the custom one's name. `group` names the group through
    which it came, or is empty.
    """

    member_id: uuid.UUID
    tenant_id: uuid.UUID | None
    path: str | None
    on_workspace: bool
    role: str
    points: frozenset[Permission]
    group: str

    def counts_on(self, path: str | None) -> bool:
        """Return whether it applies to the tenant with that path; None is the platform."""
        return self.path is None or (path is not None and path.startswith(self.path))


@dataclass(slots=True)
class _Memory:
    grants: dict[uuid.UUID, tuple[Grant, ...]] = field(default_factory=dict)
    written: bool = False


@dataclass(frozen=True, slots=True)
class KeyBound:
    """The bound that the key of a request sets to its owner's rights.

    `scopes` are the points that the key names. `reach` adds the views without which they are of no use.
    """

    user_id: uuid.UUID
    scopes: frozenset[Permission]
    reach: frozenset[Permission]


_memory: ContextVar[_Memory | None] = ContextVar("grants", default=None)
_bound: ContextVar[KeyBound | None] = ContextVar("key_bound", default=None)


@contextmanager
def remember_grants(bound: KeyBound | None = None) -> Iterator[None]:
    """Remember grants inside; one request each. `bound`, or one that is set inside, ends with the block."""
    token, bound_token = _memory.set(_Memory()), _bound.set(bound)
    try:
        yield
    finally:
        _bound.reset(bound_token)
        _memory.reset(token)


def bind_to_scopes(user_id: uuid.UUID, scopes: Iterable[str]) -> None:
    """Bound the rights of `user_id` by the scopes of a key until the context ends; none bound nothing."""
    words = list(scopes)
    points = points_of(words)
    _bound.set(KeyBound(user_id, points, reach_of(points)) if words else None)


def current_bound() -> KeyBound | None:
    """The bound of the key of this request, None where nothing bounds its owner."""
    return _bound.get()


def bound_of(actor: Actor) -> KeyBound | None:
    """The bound of the key by which `actor` makes this request, None where nothing bounds it."""
    bound = _bound.get()
    return bound if bound is not None and bound.user_id == actor.pk else None


def forget_grants() -> None:
    """Something that grants depend on is being written: stop remembering."""
    memory = _memory.get()
    if memory is not None:
        memory.written = True
        memory.grants.clear()


def grants_of(actor: Actor) -> tuple[Grant, ...]:
    """The roles that `actor` can use in this request, in a fixed order: all, or what its key reaches."""
    held, bound = grants_held(actor), bound_of(actor)
    if bound is None:
        return held
    reached = (replace(grant, points=grant.points & bound.reach) for grant in held)
    return tuple(grant for grant in reached if grant.points)


def grants_held(actor: Actor) -> tuple[Grant, ...]:
    """All roles of `actor`, by groups as well, in a fixed order, whatever the request's key reaches.

    An actor without an account has none.
    """
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
    "tenant__kind",
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


_HELD: Final = PreparedQuery(_of)


@row_scope.whole()
def _read(user_id: uuid.UUID) -> tuple[Grant, ...]:
    return tuple(_grant(row) for row in sorted(_HELD(user_id), key=itemgetter(0)))


@row_scope.whole()
def read_ahead(users: Iterable[uuid.UUID]) -> None:
    """Read the grants of many users in one query, and remember them where grants are remembered."""
    memory = _memory.get()
    if memory is None or memory.written:
        return
    missing = set(users) - memory.grants.keys()
    if missing:
        memory.grants |= _read_many(missing)


def _read_many(users: Collection[uuid.UUID]) -> dict[uuid.UUID, tuple[Grant, ...]]:
    rows = Member.unscoped.order_by()
    own = rows.filter(user_id__in=users).values_list("user_id", *_COLUMNS)
    by_group = rows.filter(group__people__user_id__in=users).values_list("group__people__user_id", *_COLUMNS)
    found: defaultdict[uuid.UUID, list[Grant]] = defaultdict(list)
    for user_id, *row in sorted(own.union(by_group, all=True), key=itemgetter(1)):
        found[user_id].append(_grant(row))
    return {user: tuple(found[user]) for user in users}


def _grant(row: Sequence[Any]) -> Grant:
    pk, tenant_id, path, kind, role, name, points, group = row
    return Grant(
        member_id=pk,
        tenant_id=tenant_id,
        path=path,
        on_workspace=kind == TenantKind.WORKSPACE,
        role=role or name,
        points=ROLE_PERMISSIONS[role] if role else points_of(points),
        group=group or "",
    )
