"""Computes the expected answer from the actor's grants and the row's clauses alone.

It uses none of the platform's own permission code, so that the two can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.access.actors import ENDED, LOSSES, Actor
from tests.access.table import Ask, Need

NO_ACCOUNT = ("nobody", "closed", "expired", "revoked")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The expected status and, where the answer has one, the code; `granted` is true for no refusal."""

    status: int
    code: str = ""

    @property
    def granted(self) -> bool:
        return not self.code and self.status not in (400, 401, 403, 404)


def met(actor: Actor, wanted: Need) -> int:
    """Return the refusal of the first clause that the actor does not meet, else 0."""
    for clause in wanted:
        if not any(actor.has(point, place, hands=clause.hands) for point, place in clause.any_of):
            return clause.refusal
    return 0


def verdict(actor: Actor, ask: Ask) -> Verdict:
    """Return the expected answer of `ask` for `actor`."""
    if ask.open:
        # Without a key everything open is open; an invalid key is an error even there.
        wrong_key = ask.is_api and actor.state in NO_ACCOUNT and actor.state != "nobody"
        return Verdict(401) if wrong_key else Verdict(ask.ok)
    if actor.state in NO_ACCOUNT:
        return Verdict(401)
    if actor.state == "one-time" and ask.by_session and not ask.unchosen:
        return Verdict(403, "PASSWORD_CHANGE_REQUIRED")
    if actor.scopes and (ask.scope is None or not set(ask.scope.split()) <= set(actor.scopes)):
        return Verdict(403, "SCOPE_MISSING")
    refusal = met(actor, ask.need) or (ask.program if actor.service else 0)
    if not refusal and actor.state == "one-time" and ask.chosen:
        return Verdict(403, "PASSWORD_CHANGE_REQUIRED")
    if refusal:
        return Verdict(refusal)
    return _after(actor, ask) if ask.lost else Verdict(ask.ok)


def _after(actor: Actor, ask: Ask) -> Verdict:
    """Return the expected second answer, when something was lost after the first."""
    if ask.lost in ENDED:
        return Verdict(403, "ACCESS_LOST")
    if ask.lost == "the password":
        return Verdict(403, "PASSWORD_CHANGE_REQUIRED")
    left = LOSSES[ask.lost]
    refusal = met(actor if left is None else replace(actor, grants=left), ask.then)
    return Verdict(refusal or ask.ok)
