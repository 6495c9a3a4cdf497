"""One row for each request that the platform can answer: the address and the rights that it needs.

The rights are a list of clauses, checked from the left: the first that the actor does not meet gives the
answer, 404 if the thing does not exist for the actor, 403 if the actor may see it and not do this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.access.actors import VIEW

Right = tuple[str, str]
"""A point at a place."""


@dataclass(frozen=True, slots=True)
class Clause:
    """`refusal` is the status for an actor with none of the rights.

    `hands` marks a right that is handed on, or that another account has: for it only a key's scopes count.
    """

    refusal: int
    any_of: tuple[Right, ...]
    hands: bool = False


Need = tuple[Clause, ...]


def see(*any_of: Right) -> Need:
    """Answer 404 to an actor with none of these rights."""
    return (Clause(404, any_of),)


def must(*any_of: Right) -> Need:
    """Answer 403 to an actor with none of these rights."""
    return (Clause(403, any_of),)


def cover(*points: str, place: str = "here") -> Need:
    """Demand all of these points, so that an actor hands on nothing that it does not have."""
    return tuple(Clause(403, ((point, place),), hands=True) for point in points)


def anywhere(point: str) -> Need:
    """Demand a point at any place; the body of an actor without it is not read."""
    return must((point, "anywhere"))


def need(point: str, place: str = "here") -> Need:
    """Demand a point at a place; an actor that cannot see the place gets 404."""
    if place == "platform":
        return must((point, place))
    return see((point, place), (VIEW, place)) + must((point, place))


def inside(point: str) -> Need:
    """Demand a point in the workspace or tenant that the address names."""
    return see((VIEW, "here")) + need(point)


EVERYBODY: Final[Need] = ()
"""The need that every signed-in actor meets."""
NOBODY: Final[Need] = see()
"""The need that no actor meets: the thing does not exist."""
NOT_SO: Final[Need] = (Clause(400, ()),)
"""The need of a request that is wrong for every actor."""
SIGHT: Final = see((VIEW, "here"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to one route.

    `route` is the address below the root, as the URL configuration writes it, its parameters in braces;
    they and those of `query` and `body` are replaced by things of the world. `ok` is the status for an actor
    that meets the need; `writes` is a table that then has changed. `scope` holds the points that a key
    with scopes needs, None where such a key is refused. `arrange` names what is prepared first (see
    `world.ARRANGED`). `lists` is a kind of thing of which exactly those are shown that `listed` allows.
    `quiet` marks a page that answers a refusal like a success, with a sentence on it. `shows` are pieces of
    the page that are shown only to an actor that meets the need. `open` needs no account.
    `session` calls the API with a session in place of a key. `chosen` is refused to an actor that still has a
    one-time password; a session with one is refused everything but what is `unchosen`.
    `program` is the answer to a program's account where it differs from that to a person. `has_dry_run` is
    False where a dry run has an answer of its own.
    `lost` names what becomes of the actor's roles, key or account after the answer (see `actors.LOSSES`):
    a POST is then sent again with its `Idempotency-Key`, and a stream looks for news again. That second
    answer is compared with the need `then`.
    A command has the method `COMMAND` and its words for a route; it is run with `--user`.
    """

    route: str
    method: str
    need: Need
    scope: str | None = None
    ok: int = 200
    body: Any = None
    query: str = ""
    media: str = "application/json"
    writes: str = ""
    arrange: str = ""
    lists: str = ""
    listed: Need = ()
    quiet: bool = False
    open: bool = False
    shows: tuple[tuple[str, Need], ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    case: str = ""
    session: bool = False
    chosen: bool = False
    unchosen: bool = False
    program: int = 0
    has_dry_run: bool = True
    lost: str = ""
    then: Need = ()

    def __str__(self) -> str:
        return " ".join(filter(None, (self.method, self.route, self.case)))

    @property
    def is_api(self) -> bool:
        return self.route.startswith("api/")

    @property
    def is_command(self) -> bool:
        return self.method == "COMMAND"

    @property
    def by_session(self) -> bool:
        return self.session or not self.is_api

    @property
    def rights(self) -> list[Right]:
        """Return every right that is asked for, in order."""
        return list(dict.fromkeys(right for clause in (*self.need, *self.then) for right in clause.any_of))
