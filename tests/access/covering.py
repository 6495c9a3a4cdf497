"""Selects the actors that send each row's request, unless every actor sends every request.

A row is sent by the actors that differ in what it needs: one without each of its points, one with few other
rights, keys with and without its scope, actors without an account, and the usual roles. A few of the other
actors send each row, in turn. With `ALLOTMENT_ACCESS=full` every actor sends every row.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from tests.access import (
    rows_again,
    rows_alerts,
    rows_operations,
    rows_pages,
    rows_queues,
    rows_quota,
    rows_tenancy,
    rows_tenants,
    rows_work,
)
from tests.access.actors import ACTORS, POINTS, Actor
from tests.access.asking import may_ask
from tests.access.oracle import verdict
from tests.access.table import Ask

API: Final = (*rows_tenancy.ROWS, *rows_quota.ROWS, *rows_work.ROWS, *rows_alerts.API)
CONSOLE: Final = (
    *rows_pages.ROWS,
    *rows_operations.ROWS,
    *rows_queues.ROWS,
    *rows_tenants.ROWS,
    *rows_alerts.CONSOLE,
)
TABLE: Final = (*API, *CONSOLE, *rows_again.ROWS)
"""All rows; those with a loss and those of commands come last."""
ROUTE: Final = os.environ.get("ALLOTMENT_ACCESS_ROUTE", "")
"""A part of an address that selects the rows of the matrix."""
FULL: Final = os.environ.get("ALLOTMENT_ACCESS") == "full"
_ALWAYS: Final = ("platform-admin", "stranger", "neighbour", "guest", "admin")
_IN_TURN: Final = tuple(name for name in ACTORS if name not in _ALWAYS)
_SOME: Final = 1
_RIGHTS: Final = 8
"""The number of rights that a row with many of them is tested without, one at a time."""


def who_asks(ask: Ask) -> list[Actor]:
    """Return the actors that send a row, each once."""
    if FULL:
        return [actor for actor in ACTORS.values() if may_ask(actor, ask)]
    if ask.lost:  # actors that have the right; the row without a loss tests the others
        names = dict.fromkeys(["platform-admin", "admin", "folder-admin", "stranger", *_by_scope(ask)])
    else:
        names = dict.fromkeys([*_ALWAYS, *_by_right(ask), *_by_scope(ask), *_some(ask)])
    return [ACTORS[name] for name in names if may_ask(ACTORS[name], ask)]


def who_asks_again(ask: Ask) -> list[Actor]:
    """Return the actors that send a row on a database with row policies: all that are granted, and for each
    refusal one user and one key.

    What the application refuses without policies, it refuses with them. Policies can only hide rows from an
    actor that may see them, or prevent the record of a refusal.
    """
    if FULL:
        return who_asks(ask)
    actors = who_asks(ask)
    first = TABLE.index(ask) % len(actors)
    asked, refused = [], set()
    for actor in actors[first:] + actors[:first]:
        wanted = verdict(actor, ask)
        if wanted.granted or (wanted, bool(actor.scopes)) not in refused:
            asked.append(actor)
            refused.add((wanted, bool(actor.scopes)))
    return asked


def _by_right(ask: Ask) -> Iterator[str]:
    shown = [right for _piece, need in ask.shows for clause in need for right in clause.any_of]
    for point, place in list(dict.fromkeys([*ask.rights, *shown]))[:_RIGHTS]:
        yield f"platform but {point}"
        if point in POINTS:
            yield f"{point} and view{' above' if place == 'above' else ''}"
        if place in ("above", "root", "platform"):
            yield "folder-admin"
    if ask.lists:
        yield from ("auditor", "platform-viewer", "viewer", "by-group")


def _by_scope(ask: Ask) -> Iterator[str]:
    for scope in (ask.scope or "").split():
        yield f"key of {scope}"
        yield f"key but {scope}"
    if ask.scope is None:
        yield "key of tenant.view"


def _some(ask: Ask) -> Iterator[str]:
    start = TABLE.index(ask) * _SOME
    for number in range(start, start + _SOME):
        yield _IN_TURN[number % len(_IN_TURN)]
    # Checks that run before every view are tested once for each address, not for each row.
    first = next(other for other in TABLE if (other.route, other.method) == (ask.route, ask.method))
    if ask.session:
        yield "one-time"
    if ask is first:
        yield from ("nobody", "closed", "one-time")


def is_mixed(ask: Ask) -> bool:
    """Return whether its address names both a workspace or tenant and something in it."""
    place = any(name in ask.route for name in ("{ws}", "{workspace}", "{tenant}"))
    things = ("job", "train", "held", "task", "queue", "spare_queue", "quota_request", "limit", "member",
              "role", "spare_role", "prefix", "account", "key_id", "account_id")  # fmt: skip
    return place and any(f"{{{name}}}" in ask.route + str(ask.body) for name in things)
