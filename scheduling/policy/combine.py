"""Combines the policies on the path from the root to a tenant."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, Protocol

from scheduling.models.idle_stretch import IdleAction
from scheduling.models.workspace_policy import IDLE_WARN_S
from scheduling.policy.fields import amount_of
from scheduling.policy.trees import merge_trees, put_value, value_at
from tenants.models import Tenant

START_LIMIT_S: Final = 600
"""The default time within which pods must start, in seconds."""
_STRICTEST_FIRST: Final = tuple(IdleAction)


class Stated(Protocol):
    """The policy of one tenant; a row of `WorkspacePolicy`."""

    @property
    def tenant(self) -> Tenant: ...
    @property
    def defaults(self) -> dict[str, Any]: ...
    @property
    def minimum(self) -> dict[str, Any]: ...
    @property
    def maximum(self) -> dict[str, Any]: ...
    @property
    def images(self) -> list[str] | None: ...
    @property
    def allowed(self) -> dict[str, list[str]]: ...
    @property
    def idle_timeout_s(self) -> int | None: ...
    @property
    def idle_action(self) -> str: ...
    @property
    def idle_warn_s(self) -> int: ...
    @property
    def start_limit_s(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class PolicyLimit:
    """An effective limit: as it was written, in the field's unit, and the tenant that set it."""

    value: Any
    amount: int
    tenant: Tenant


@dataclass(frozen=True, slots=True)
class Patterns:
    """Patterns of a tenant; an image, or the value of a field, must match one of them."""

    patterns: Sequence[str]
    tenant: Tenant


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The effective policy of a tenant. `defaults` has the shape of a job file whose `roles` is one
    mapping."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    minimum: Mapping[str, PolicyLimit] = field(default_factory=dict)
    maximum: Mapping[str, PolicyLimit] = field(default_factory=dict)
    images: Sequence[Patterns] = ()
    allowed: Mapping[str, Sequence[Patterns]] = field(default_factory=dict)
    idle_timeout_s: PolicyLimit | None = None
    start_limit_s: PolicyLimit | None = None
    idle_action: IdleAction = IdleAction.SUSPEND
    idle_warn_s: int = IDLE_WARN_S

    @property
    def start_within_s(self) -> int | None:
        """The time that the pods of a job may take to start, in seconds; None for no limit."""
        if self.start_limit_s is None:
            return START_LIMIT_S
        return self.start_limit_s.amount or None


def combine_policies(policies: Sequence[Stated]) -> EffectivePolicy:
    """Return the effective policy of those on a path, the root's first; of two equal limits the upper one is
    named.
    """
    defaults: dict[str, Any] = {}
    minimum: dict[str, PolicyLimit] = {}
    maximum: dict[str, PolicyLimit] = {}
    images: list[Patterns] = []
    allowed: defaultdict[str, list[Patterns]] = defaultdict(list)
    idle: PolicyLimit | None = None
    start: PolicyLimit | None = None
    for policy in policies:
        defaults = merge_trees(policy.defaults, defaults)
        for name, limit in _limits(policy.minimum, policy.tenant).items():
            if name not in minimum or limit.amount > minimum[name].amount:
                minimum[name] = limit
        for name, limit in _limits(policy.maximum, policy.tenant).items():
            if name not in maximum or limit.amount < maximum[name].amount:
                maximum[name] = limit
        if policy.images is not None:
            images.append(Patterns(tuple(policy.images), policy.tenant))
        for name, patterns in sorted(policy.allowed.items()):
            allowed[name].append(Patterns(tuple(patterns), policy.tenant))
        wait = policy.idle_timeout_s
        if wait is not None and (idle is None or wait < idle.amount):
            idle = PolicyLimit(wait, wait, policy.tenant)
        limit_s = policy.start_limit_s
        if limit_s is not None and (start is None or (limit_s and limit_s < (start.amount or inf))):
            start = PolicyLimit(limit_s, limit_s, policy.tenant)
    action, warn_s = _idle_rule(policies)
    return EffectivePolicy(
        defaults=_within(defaults, minimum, maximum),
        minimum=minimum,
        maximum=maximum,
        images=tuple(images),
        allowed=dict(sorted(allowed.items())),
        idle_timeout_s=idle,
        start_limit_s=start,
        idle_action=action,
        idle_warn_s=warn_s,
    )


def _idle_rule(policies: Sequence[Stated]) -> tuple[IdleAction, int]:
    """Return the strictest action and the longest warning of the tenants that set an idle timeout."""
    setting = [policy for policy in policies if policy.idle_timeout_s is not None]
    if not setting:
        return IdleAction.SUSPEND, IDLE_WARN_S
    actions = {IdleAction(policy.idle_action) for policy in setting}
    return (
        next(action for action in _STRICTEST_FIRST if action in actions),
        max(policy.idle_warn_s for policy in setting),
    )


def _limits(stated: Mapping[str, Any], tenant: Tenant) -> dict[str, PolicyLimit]:
    return {
        name: PolicyLimit(value, amount_of(name, value), tenant) for name, value in sorted(stated.items())
    }


def _within(
    defaults: Mapping[str, Any], minimum: Mapping[str, PolicyLimit], maximum: Mapping[str, PolicyLimit]
) -> dict[str, Any]:
    """Return the defaults adjusted to the limits. The default run time is the longest that is allowed."""
    found = copy.deepcopy(dict(defaults))
    for name, limit in maximum.items():
        value = value_at(found, name)
        if (value is None and name == "max_run_s") or (
            value is not None and amount_of(name, value) > limit.amount
        ):
            put_value(found, name, limit.value)
    for name, limit in minimum.items():
        value = value_at(found, name)
        if value is not None and amount_of(name, value) < limit.amount:
            put_value(found, name, limit.value)
    return found
