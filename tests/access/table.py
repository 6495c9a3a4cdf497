"""One row for each thing that can be asked of the platform: the address, and what it takes to get it.

What it takes is a list of clauses, read from the left: the first that the actor does not meet gives the
answer, 404 where the thing does not exist for them, 403 where they may see it and not do this.
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
    """`refusal` is the answer to whoever has none of the rights.

    `hands` is a right that is handed on, or that another account has: for that a key's scopes count alone.
    """

    refusal: int
    any_of: tuple[Right, ...]
    hands: bool = False


Need = tuple[Clause, ...]


def see(*any_of: Right) -> Need:
    """Whoever has none of these finds nothing."""
    return (Clause(404, any_of),)


def must(*any_of: Right) -> Need:
    """Whoever has none of these may not."""
    return (Clause(403, any_of),)


def cover(*points: str, place: str = "here") -> Need:
    """All of these, so that nothing is handed on that the actor does not have."""
    return tuple(Clause(403, ((point, place),), hands=True) for point in points)


def anywhere(point: str) -> Need:
    """A point at any place at all: whoever has it nowhere has no body read."""
    return must((point, "anywhere"))


def need(point: str, place: str = "here") -> Need:
    """A point at a place; who cannot even see the place finds nothing."""
    if place == "platform":
        return must((point, place))
    return see((point, place), (VIEW, place)) + must((point, place))


def inside(point: str) -> Need:
    """A point in the workspace or tenant that the address names."""
    return see((VIEW, "here")) + need(point)


EVERYBODY: Final[Need] = ()
"""Whoever is signed in."""
NOBODY: Final[Need] = see()
"""Not there for anybody."""
NOT_SO: Final[Need] = (Clause(400, ()),)
"""A mistake, whoever makes it."""
SIGHT: Final = see((VIEW, "here"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to one route.

    `route` is the address below the root, as the URL configuration writes it, its parameters in braces;
    they, those of `query` and those of `body` stand for things of the world. `ok` is the status for whoever
    gets what they ask for; `writes` is a table that then has changed. `scope` holds the points that a key
    with scopes needs, None where such a key is refused. `arrange` names what is made ready first (see
    `world.ARRANGED`). `lists` is a kind of thing of which exactly those are shown that `listed` allows.
    `quiet` is a page that answers a refusal like a success, with a sentence on it. `shows` are pieces of the
    page that are there for whoever meets the need, and for nobody else. `open` needs no account.
    `session` asks the API by a session in place of a key. `chosen` is refused to whoever still has a
    one-time password; a session with one is refused everything but what is `unchosen`.
    `program` is the answer to a program's account where it differs from that to a person. `has_dry_run` is
    False where a dry run has an answer of its own.
    `lost` names what becomes of the actor's roles, key or account after the answer (see `actors.LOSSES`):
    a POST is then sent again with its `Idempotency-Key`, and a stream looks for news again. That second
    answer is judged, by what `then` takes.
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
        """Every right that is asked for, in order."""
        return list(dict.fromkeys(right for clause in (*self.need, *self.then) for right in clause.any_of))
