"""Roles that get their flavors as one, because they are to stand together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduling.engine.model import Flavor, ResourceName, Role
from scheduling.engine.quota.assignment import FlavorChoice, FlavorTry, Refusal
from scheduling.engine.state.charges import compute_demand

NEUTRAL = Flavor(id="", card_memory=1)
"""Asks for card memory of every card, so that `compute_demand` names every resource of a request."""


@dataclass(slots=True)
class Companions:
    """Roles that are served as one, the resources they name together, and what the search found.

    `place` is the flavor in which they stand if they name none.
    """

    roles: list[Role]
    names: tuple[ResourceName, ...] = ()
    choices: dict[ResourceName, FlavorChoice] = field(default_factory=dict)
    tries: list[FlavorTry] = field(default_factory=list)
    place: str = ""
    refusal: Refusal | None = None
    failed: bool = False


def companions(roles: Iterable[Role]) -> list[Companions]:
    """Roles in order; those that share a `companions` name stand where the first of them does."""
    groups: list[Companions] = []
    known: dict[str, Companions] = {}
    for role in roles:
        name = "" if role.topology is None else role.topology.companions
        if name and name in known:
            known[name].roles.append(role)
            continue
        groups.append(Companions([role]))
        if name:
            known[name] = groups[-1]
    for group in groups:
        group.names = named(group.roles)
    return groups


def named(roles: list[Role]) -> tuple[ResourceName, ...]:
    """The resources that roles ask for, sorted."""
    if len(roles) == 1:
        return tuple(compute_demand(roles[0].request, NEUTRAL))
    return tuple(sorted({name for role in roles for name in compute_demand(role.request, NEUTRAL)}))
