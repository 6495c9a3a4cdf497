"""Why a job waits to which flavors of its queue are shut: by caps of its user, budgets, or its evictions.

A search leaves such flavors out, so what it says holds for the rest of them alone. What a job is told is
worked out over all flavors of its queue.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduling.engine.model import HelpCode, Reason
from scheduling.engine.quota.assignment import SEVERITY, Assignment, Mode, Refusal

# Beside the reasons of a search: what is not allowed is graver than what only has to be waited for.
_POLICY = 2.5


def told_over_all(quota: Assignment, shut: Mapping[str, Refusal], rest: Refusal | None) -> Refusal | None:
    """The least grave of what keeps a job from all flavors.

    `quota` is what it would get if none were shut, `shut` why each of them is, `rest` what was said of the
    others. None where nothing is known.
    """
    found = [each for each in (_with_shut(quota, shut), rest) if each is not None]
    return min(found, key=_gravity, default=None)


def _with_shut(quota: Assignment, shut: Mapping[str, Refusal]) -> Refusal | None:
    """What a job lacks of the flavors that it would get, or why these are shut to it."""
    if quota.mode is Mode.FIT and quota.refusal is None:
        names = (name for role in quota.roles for name in role.flavors)
        return next((shut[name] for name in names if name in shut), None)
    lacks = quota.refusal
    if lacks is None or lacks.reason in (Reason.NEVER_FITS, Reason.EXCEEDS_MAX_QUOTA):
        return lacks
    why = shut.get(str(lacks.known.get("flavor", "")))
    if why is None or (why.reason is not Reason.POLICY_DENIED and not _takes_more(why, lacks)):
        return lacks
    return why


def _takes_more(why: Refusal, lacks: Refusal) -> bool:
    """Whether more of the same quota has to come back for a rule than for what others hold of it: it would
    be told the rule as soon as they had given that back."""
    alike = why.reason is lacks.reason and why.known.get("resource") == lacks.known.get("resource")
    return alike and _awaited(why) >= _awaited(lacks)


def _awaited(refusal: Refusal) -> int:
    """How much others have to give back of the quota that a refusal names."""
    resource = refusal.known.get("resource")
    waits = (way.numbers for way in refusal.help if way.code is HelpCode.WAIT_FOR_RELEASE)
    return max((int(n["short"]) for n in waits if n["resource"] == resource), default=0)


def _gravity(refusal: Refusal) -> float:
    return _POLICY if refusal.reason is Reason.POLICY_DENIED else SEVERITY.get(refusal.reason, 0)
