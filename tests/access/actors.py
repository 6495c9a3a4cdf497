"""The actors of the access matrix, declared as data: nothing here is computed by the platform.

A grant names the place of a role and the points that the role has. The places are those of `world`: `here` is
the workspace of the request, `above` its folder, `beside` a second workspace of that folder, `other` a
workspace elsewhere, and `platform` is above all of them. A new actor is one more line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

VIEW: Final = "tenant.view"
POINTS: Final = (
    VIEW, "tenant.edit", "member.edit", "quota.view", "quota.edit", "queue.edit", "policy.edit",
    "job.view", "job.submit", "job.stop-own", "job.stop-any", "audit.view",
)  # fmt: skip
"""Points that a role of a tenant may have."""
ALL: Final = (*POINTS, "cluster.view", "cluster.edit")

_VIEWER: Final = (VIEW, "quota.view", "job.view")
_EDITOR: Final = (*_VIEWER, "job.submit", "job.stop-own")
ROLES: Final = {
    "viewer": _VIEWER,
    "editor": _EDITOR,
    "admin": POINTS,
    "platform-viewer": (*_VIEWER, "cluster.view"),
    "platform-admin": ALL,
    "auditor": (VIEW, "audit.view"),
}
"""The points of the built-in roles, as the documentation lists them."""

NEEDED: Final = {
    "quota.edit": ("quota.view",),
    "queue.edit": ("quota.view",),
    "job.submit": ("job.view", "quota.view"),
    "job.stop-own": ("job.view",),
    "job.stop-any": ("job.view",),
    "cluster.edit": ("cluster.view",),
}
"""The points without which a key cannot use a scope."""

LOSSES: Final[dict[str, tuple[tuple[str, tuple[str, ...]], ...] | None]] = {
    "nothing": None,
    "every role": (),
    "the right here": (("here", (VIEW,)), ("other", ALL)),
    "the workspace": (("other", ALL),),
    "sight": (("here", tuple(point for point in POINTS if point != VIEW)),),
    "the platform": (("root", POINTS),),
    "the key": None,
    "the account": None,
    "the password": None,
    "the session": None,
}
"""The grants that an actor has after each kind of loss during a request; None keeps the grants."""
ENDED: Final = ("the key", "the account", "the session")
"""The losses after which the actor is no longer signed in."""

INSIDE: Final = {
    "anywhere": ("platform", "root", "above", "here", "beside", "elsewhere", "other"),
    "platform": ("platform",),
    "root": ("platform", "root"),
    "above": ("platform", "root", "above"),
    "here": ("platform", "root", "above", "here"),
    "beside": ("platform", "root", "above", "beside"),
    "elsewhere": ("platform", "root", "elsewhere"),
    "other": ("platform", "root", "elsewhere", "other"),
}
"""The places at which a role applies to a place."""


@dataclass(frozen=True, slots=True)
class Actor:
    """A caller. `grants` are pairs of a place and the name of a built-in role or the points of a custom role.

    `state` names a special case: `nobody` sends no credentials, `closed` is a closed account, `one-time` has
    a one-time password; `expired` and `revoked` describe the key. `scopes` are those of the key. `service`
    marks the account of a program; with `group` the actor has the role through a group.
    """

    name: str
    grants: tuple[tuple[str, str | tuple[str, ...]], ...] = ()
    state: str = ""
    scopes: tuple[str, ...] = ()
    service: bool = False
    group: bool = False

    def has(self, point: str, place: str, *, hands: bool = False) -> bool:
        """Return whether the actor can use a point at a place, by a role there or above.

        A key with scopes limits the actor to these and the views that they need. A right that the actor hands
        on (`hands`) must be in the scopes themselves.
        """
        reach = {*self.scopes, *(view for scope in self.scopes for view in (VIEW, *NEEDED.get(scope, ())))}
        if self.scopes and point not in (self.scopes if hands else reach):
            return False
        return any(
            at in INSIDE[place] and point in (ROLES[role] if isinstance(role, str) else role)
            for at, role in self.grants
        )


def _but(left_out: str, points: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(point for point in points if point != left_out)


_ROOT: Final = (("platform", "platform-admin"),)
PEOPLE: Final = (
    Actor("nobody", state="nobody"),
    Actor("stranger"),
    Actor("viewer", (("here", "viewer"),)),
    Actor("editor", (("here", "editor"),)),
    Actor("admin", (("here", "admin"),)),
    Actor("folder-admin", (("above", "admin"), ("elsewhere", "viewer"))),
    Actor("sibling-admin", (("beside", "admin"),)),
    Actor("neighbour", (("other", "admin"),)),
    Actor("guest", (("here", "viewer"), ("other", "admin"))),
    Actor("platform-viewer", (("platform", "platform-viewer"),)),
    Actor("platform-admin", _ROOT),
    Actor("auditor", (("platform", "auditor"),)),
    Actor("program", (("here", "editor"),), service=True),
    Actor("by-group", (("here", "admin"),), group=True),
    Actor("closed", _ROOT, state="closed"),
    Actor("one-time", _ROOT, state="one-time"),
    Actor("expired", _ROOT, state="expired"),
    Actor("revoked", _ROOT, state="revoked"),
)
SHAPED: Final = (
    *(Actor(f"only {point}", (("here", (point,)),)) for point in POINTS),
    *(Actor(f"{point} and view", (("here", (point, VIEW)),)) for point in POINTS),
    *(Actor(f"but {point}", (("here", _but(point, POINTS)),)) for point in POINTS),
    *(Actor(f"{point} and view above", (("above", (point, VIEW)),)) for point in POINTS),
    *(Actor(f"platform {point}", (("platform", (point,)),)) for point in ALL),
    *(Actor(f"platform but {point}", (("platform", _but(point, ALL)),)) for point in ALL),
)
KEYS: Final = (
    *(Actor(f"key of {point}", _ROOT, scopes=(point,)) for point in ALL),
    *(Actor(f"key but {point}", _ROOT, scopes=_but(point, ALL)) for point in ALL),
)
ACTORS: Final = {actor.name: actor for actor in (*PEOPLE, *SHAPED, *KEYS)}
