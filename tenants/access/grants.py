"""The roles of a user, read in one query and cached for the duration of one request.

All permission checks of a request concern the same user, so the grants are read once. They are cached only
until the first write of the request: as soon as it writes a membership, group, role or tenant, every check
reads them again until the request ends, because the transaction of that write may still be rolled back.
Outside of requests (workers, commands, streams) nothing is cached.

A request with an access key that has scopes is bounded by them: its owner's grants lose every permission that
the scopes do not reach, so every check of a service on the owner applies to the key.
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

    `path` is that of the tenant of the role, None on the platform; `on_workspace` is true if that tenant is a
    workspace. `role` is the word of the built-in role or the name of the custom one. `group` is the group
    that has the role, or empty for a direct role.
    """

    member_id: uuid.UUID
    tenant_id: uuid.UUID | None
    path: str | None
    on_workspace: bool
    role: str
    points: frozenset[Permission]
    group: str

    def counts_on(self, path: str | None) -> bool:
        """Return whether the role applies to the tenant with that path; None is the platform."""
        return self.path is None or (path is not None and path.startswith(self.path))


@dataclass(slots=True)
class _Memory:
    grants: dict[uuid.UUID, tuple[Grant, ...]] = field(default_factory=dict)
    written: bool = False


@dataclass(frozen=True, slots=True)
class KeyBound:
    """The bound that the key of a request sets to its owner's permissions.

    `scopes` are the permissions that the key names. `reach` adds the views that their use needs.
    """

    user_id: uuid.UUID
    scopes: frozenset[Permission]
    reach: frozenset[Permission]


_memory: ContextVar[_Memory | None] = ContextVar("grants", default=None)
_bound: ContextVar[KeyBound | None] = ContextVar("key_bound", default=None)


@contextmanager
def remember_grants(bound: KeyBound | None = None) -> Iterator[None]:
    """Cache grants within the block, one per request. `bound`, or a bound that is set inside, ends with the
    block.
    """
    token, bound_token = _memory.set(_Memory()), _bound.set(bound)
    try:
        yield
    finally:
        _bound.reset(bound_token)
        _memory.reset(token)


def bind_to_scopes(user_id: uuid.UUID, scopes: Iterable[str]) -> None:
    """Bound the permissions of `user_id` by the scopes of a key until the context ends; no scopes mean no
    bound.
    """
    words = list(scopes)
    points = points_of(words)
    _bound.set(KeyBound(user_id, points, reach_of(points)) if words else None)


def current_bound() -> KeyBound | None:
    """Return the bound of the key of this request, None where its owner is not bounded."""
    return _bound.get()


def bound_of(actor: Actor) -> KeyBound | None:
    """Return the bound of the key with which `actor` makes this request, None where it is not bounded."""
    bound = _bound.get()
    return bound if bound is not None and bound.user_id == actor.pk else None


def forget_grants() -> None:
    """Stop caching, because a row that grants depend on is being written."""
    memory = _memory.get()
    if memory is not None:
        memory.written = True
        memory.grants.clear()


def grants_of(actor: Actor) -> tuple[Grant, ...]:
    """Return the roles that `actor` can use in this request, in a fixed order: all, or those that its key
    reaches.
    """
    held, bound = grants_held(actor), bound_of(actor)
    if bound is None:
        return held
    reached = (replace(grant, points=grant.points & bound.reach) for grant in held)
    return tuple(grant for grant in reached if grant.points)


def grants_held(actor: Actor) -> tuple[Grant, ...]:
    """Return all roles of `actor`, also by groups, in a fixed order, whatever the request's key reaches.

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
    # A union of two queries: each uses an index, which one query with conditions on both tables would not.
    own = Member.unscoped.filter(user_id=user_id).order_by().values_list(*_COLUMNS)
    by_group = Member.unscoped.filter(group__people__user_id=user_id).order_by().values_list(*_COLUMNS)
    return own.union(by_group, all=True)


_HELD: Final = PreparedQuery(_of)


@row_scope.whole()
def _read(user_id: uuid.UUID) -> tuple[Grant, ...]:
    return tuple(_grant(row) for row in sorted(_HELD(user_id), key=itemgetter(0)))


@row_scope.whole()
def read_ahead(users: Iterable[uuid.UUID]) -> None:
    """Read the grants of many users in one query, and cache them where grants are cached."""
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
