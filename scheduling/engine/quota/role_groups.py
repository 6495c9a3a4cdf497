"""Groups of roles that are assigned one flavor, because their tasks are placed in one topology domain.

Kueue calls such a group a PodSet group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduling.engine.model import Flavor, ResourceName, Role
from scheduling.engine.quota.assignment import FlavorChoice, FlavorTry, Refusal
from scheduling.engine.state.charges import compute_demand

NEUTRAL = Flavor(id="", card_memory=1)
"""A flavor whose cards have memory, so that `compute_demand` names every resource of a request."""


@dataclass(slots=True)
class RoleGroup:
    """Roles that are assigned together, their requested resources, and the result of the search.

    `node_flavor` is the flavor whose nodes they use if they request no resources.
    """

    roles: list[Role]
    resources: tuple[ResourceName, ...] = ()
    choices: dict[ResourceName, FlavorChoice] = field(default_factory=dict)
    tries: list[FlavorTry] = field(default_factory=list)
    node_flavor: str = ""
    refusal: Refusal | None = None
    failed: bool = False


def group_roles(roles: Iterable[Role]) -> list[RoleGroup]:
    """Return roles in groups; those with one `companions` name come at the place of their first role."""
    groups: list[RoleGroup] = []
    known: dict[str, RoleGroup] = {}
    for role in roles:
        name = "" if role.topology is None else role.topology.companions
        if name and name in known:
            known[name].roles.append(role)
            continue
        groups.append(RoleGroup([role]))
        if name:
            known[name] = groups[-1]
    for group in groups:
        group.resources = requested_resources(group.roles)
    return groups


def requested_resources(roles: list[Role]) -> tuple[ResourceName, ...]:
    """Return the resources that roles request, sorted."""
    if len(roles) == 1:
        return tuple(compute_demand(roles[0].request, NEUTRAL))
    return tuple(sorted({name for role in roles for name in compute_demand(role.request, NEUTRAL)}))
