"""Validates a policy before it is written; all errors are reported together, each with its field."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.translation import gettext as _

from foundation.core.errors import FieldError, Invalid
from foundation.core.quantities import QuantityError
from scheduling.job_file import parse_job
from scheduling.models.idle_stretch import IdleAction
from scheduling.models.workspace_policy import IDLE_WARN_S
from scheduling.policy.allowed import CHOICES, unknown_choice
from scheduling.policy.combine import Stated, combine_policies
from scheduling.policy.fields import LIMITED, amount_of, unknown_field
from scheduling.policy.trees import put_value, value_at
from tenants.models import Tenant

IDLE_LEAST_S: Final = 300
IDLE_MOST_S: Final = 604_800
WARN_LEAST_S: Final = 60
WARN_MOST_S: Final = 86_400
START_LEAST_S: Final = 60
START_MOST_S: Final = 86_400
PATTERNS_MAX: Final = 100
_STARS_MAX: Final = 5
_LONGEST: Final = 300
# These depend on other fields of the same job, so that no value suits every job.
_NO_DEFAULT: Final = ("name", "gang", "roles.name", "roles.min_replicas")
# Defaults are a part of a job file, so missing fields and fields of different modes are no errors.
_PARTIAL: Final = frozenset({"REQUIRED", "CONTRADICTION"})


@dataclass(frozen=True, slots=True)
class PolicyStatement:
    """The policy of one tenant; see `WorkspacePolicy` for the fields."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    minimum: Mapping[str, Any] = field(default_factory=dict)
    maximum: Mapping[str, Any] = field(default_factory=dict)
    images: Sequence[str] | None = None
    allowed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    idle_timeout_s: int | None = None
    idle_action: str = IdleAction.SUSPEND
    idle_warn_s: int = IDLE_WARN_S
    start_limit_s: int | None = None

    def stored_values(self) -> dict[str, Any]:
        """Return the fields in their stored form."""
        return {
            "defaults": dict(self.defaults),
            "minimum": dict(self.minimum),
            "maximum": dict(self.maximum),
            "images": None if self.images is None else list(self.images),
            "allowed": {name: list(patterns) for name, patterns in self.allowed.items()},
            "idle_timeout_s": self.idle_timeout_s,
            "idle_action": self.idle_action,
            "idle_warn_s": self.idle_warn_s,
            "start_limit_s": self.start_limit_s,
        }


@dataclass(frozen=True, slots=True)
class _Own:
    """A statement in the form of a policy on the path."""

    tenant: Tenant
    defaults: dict[str, Any]
    minimum: dict[str, Any]
    maximum: dict[str, Any]
    images: list[str] | None
    allowed: dict[str, list[str]]
    idle_timeout_s: int | None
    idle_action: str
    idle_warn_s: int
    start_limit_s: int | None


def check_statement(statement: PolicyStatement, tenant: Tenant, above: Sequence[Stated]) -> None:
    """Check a policy, also together with those of its ancestors.

    Raises: Invalid (code POLICY_INVALID) with an error for each field.
    """
    errors = [*_limits(statement), *_defaults(statement.defaults), *_images(statement.images)]
    errors += _allowed(statement.allowed)
    errors += _times(statement)
    if not errors:
        errors += _contradictions(statement, tenant, above)
    if errors:
        raise Invalid(_("The policy has errors. No changes were made."), code="POLICY_INVALID", errors=errors)


def _times(statement: PolicyStatement) -> Iterator[FieldError]:
    idle, start = statement.idle_timeout_s, statement.start_limit_s
    if idle is not None and not IDLE_LEAST_S <= idle <= IDLE_MOST_S:
        limits = {"low": IDLE_LEAST_S, "high": IDLE_MOST_S}
        yield FieldError("idle_timeout_s", "RANGE", _("Must be from %(low)s to %(high)s.") % limits)
    if statement.idle_action not in IdleAction:
        message = _("Valid values: %(values)s.") % {"values": ", ".join(IdleAction)}
        yield FieldError("idle_action", "UNKNOWN", message)
    if not WARN_LEAST_S <= statement.idle_warn_s <= WARN_MOST_S:
        limits = {"low": WARN_LEAST_S, "high": WARN_MOST_S}
        yield FieldError("idle_warn_s", "RANGE", _("Must be from %(low)s to %(high)s.") % limits)
    if start is not None and start and not START_LEAST_S <= start <= START_MOST_S:
        limits = {"low": START_LEAST_S, "high": START_MOST_S}
        message = _("Must be from %(low)s to %(high)s, or 0 for no limit.") % limits
        yield FieldError("start_limit_s", "RANGE", message)


def _limits(statement: PolicyStatement) -> Iterator[FieldError]:
    for side, limits in (("minimum", statement.minimum), ("maximum", statement.maximum)):
        for name, value in limits.items():
            if name not in LIMITED:
                yield FieldError(f"{side}.{name}", "UNKNOWN", unknown_field())
                continue
            try:
                amount_of(name, value)
            except QuantityError as error:
                yield FieldError(f"{side}.{name}", "QUANTITY", _(error.sentence) % error.values)


def _defaults(defaults: Mapping[str, Any]) -> Iterator[FieldError]:
    for path in _NO_DEFAULT:
        if value_at(defaults, path) is not None:
            message = _("Can't have a default: depends on the job.")
            yield FieldError(f"defaults.{path}", "NO_DEFAULT", message)
    of_roles = defaults.get("roles", {})
    if not isinstance(of_roles, Mapping):
        message = _("Must be a map that applies to every role.")
        yield FieldError("defaults.roles", "TYPE", message)
        return
    try:
        parse_job(_sample(defaults, of_roles))
    except Invalid as refused:
        for error in refused.errors:
            if error.code not in _PARTIAL:
                where = error.field.replace("roles.0", "roles", 1)
                yield FieldError(f"defaults.{where}", error.code, error.message)


def _sample(defaults: Mapping[str, Any], of_roles: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job file with only the defaults, and the mode of cards to which they belong."""
    role = copy.deepcopy(dict(of_roles))
    role.pop("min_replicas", None)
    gpu = value_at(role, "resources.gpu")
    if isinstance(gpu, Mapping) and "mode" not in gpu:
        put_value(role, "resources.gpu.mode", "mig" if "profile" in gpu else "slice")
    rest = {key: value for key, value in defaults.items() if key not in ("roles", "name", "gang")}
    return {**rest, "roles": [role]}


def _images(patterns: Sequence[str] | None) -> Iterator[FieldError]:
    if patterns is not None and len(patterns) > PATTERNS_MAX:
        message = _("Maximum: %(limit)s entries.") % {"limit": PATTERNS_MAX}
        yield FieldError("images", "TOO_LONG", message)
        return
    for index, pattern in enumerate(patterns or ()):
        if not pattern.strip() or len(pattern) > _LONGEST or pattern.count("*") > _STARS_MAX:
            message = _("Enter an image pattern with at most %(stars)s asterisks, for example pytorch/*.")
            yield FieldError(f"images.{index}", "FORMAT", message % {"stars": _STARS_MAX})


def _allowed(allowed: Mapping[str, Sequence[str]]) -> Iterator[FieldError]:
    for name, patterns in allowed.items():
        place = f"allowed.{name}"
        if name not in CHOICES:
            yield FieldError(place, "UNKNOWN", unknown_choice())
        elif len(patterns) > PATTERNS_MAX:
            yield FieldError(place, "TOO_LONG", _("Maximum: %(limit)s entries.") % {"limit": PATTERNS_MAX})
        for index, pattern in enumerate(patterns[:PATTERNS_MAX]):
            if not pattern.strip() or len(pattern) > _LONGEST or pattern.count("*") > _STARS_MAX:
                message = _("Enter a value pattern with at most %(stars)s asterisks.")
                yield FieldError(f"{place}.{index}", "FORMAT", message % {"stars": _STARS_MAX})


def _contradictions(
    statement: PolicyStatement, tenant: Tenant, above: Sequence[Stated]
) -> Iterator[FieldError]:
    """Yield errors for limits that no job could satisfy, alone or together with those of ancestors."""
    policy = combine_policies([*above, _Own(tenant=tenant, **statement.stored_values())])
    for name, least in policy.minimum.items():
        most = policy.maximum.get(name)
        if most is None or least.amount <= most.amount:
            continue
        side = "minimum" if least.tenant.pk == tenant.pk else "maximum"
        limits = {"least": least.value, "above": least.tenant, "most": most.value, "below": most.tenant}
        message = (
            _("Conflicting limits: minimum %(least)s (%(above)s), maximum %(most)s (%(below)s).") % limits
        )
        yield FieldError(f"{side}.{name}", "CONTRADICTION", message)
