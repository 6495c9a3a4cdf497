"""Finds all violations of a policy by a job, each with its field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.utils.translation import gettext as _

from foundation.core.errors import FieldError
from scheduling.job_file import JobSpec, spec_mapping
from scheduling.policy.allowed import CHOICES
from scheduling.policy.combine import EffectivePolicy, Patterns, PolicyLimit
from scheduling.policy.fields import CAPPED, LIMITED, File, Found


def find_violations(spec: JobSpec, policy: EffectivePolicy) -> list[FieldError]:
    """Return all violations, in the order of the limits; empty if the policy allows the job."""
    file = spec_mapping(spec) if policy.minimum or policy.maximum or policy.allowed else {}
    limits = [*_below(spec, file, policy), *_above(spec, file, policy)]
    return [*limits, *_images(spec, policy), *_values(file, policy)]


def find_refused_values(name: str, file: File, policy: EffectivePolicy) -> list[FieldError]:
    """Return errors for the values of one field that the policy does not allow; `file` may have only that
    field."""
    message = _("Values allowed by %(tenant)s: %(patterns)s")
    return [
        FieldError(
            path,
            "NOT_ALLOWED",
            message % {"tenant": rule.tenant, "patterns": ", ".join(rule.patterns) or "–"},
        )
        for path, value in (CHOICES[name](file) if name in policy.allowed else ())
        for rule in policy.allowed[name]
        if not _matches(value, rule.patterns)
    ]


def _below(spec: JobSpec, file: File, policy: EffectivePolicy) -> Iterator[FieldError]:
    for name, limit in policy.minimum.items():
        for found in LIMITED[name].places(spec, file):
            if found.unit_differs:
                yield _other_unit(found, limit)
            elif found.amount is not None and found.amount < limit.amount:
                message = _("Minimum is %(limit)s (policy of %(tenant)s).")
                yield FieldError(found.path, "BELOW_MINIMUM", message % _names(limit))


def _above(spec: JobSpec, file: File, policy: EffectivePolicy) -> Iterator[FieldError]:
    for name, limit in policy.maximum.items():
        for found in LIMITED[name].places(spec, file) if name not in CAPPED else ():
            if found.unit_differs and name not in policy.minimum:
                yield _other_unit(found, limit)
            elif not found.unit_differs and (found.amount is None or found.amount > limit.amount):
                message = _("Maximum is %(limit)s (policy of %(tenant)s).")
                yield FieldError(found.path, "ABOVE_MAXIMUM", message % _names(limit))


def _other_unit(found: Found, limit: PolicyLimit) -> FieldError:
    message = _("Specify Mi or Gi; maximum is %(limit)s (policy of %(tenant)s).")
    return FieldError(found.path, "NOT_COMPARABLE", message % _names(limit))


def _names(limit: PolicyLimit) -> dict[str, str]:
    return {"limit": str(limit.value), "tenant": str(limit.tenant)}


def _images(spec: JobSpec, policy: EffectivePolicy) -> Iterator[FieldError]:
    for index, role in enumerate(spec.roles):
        for rule in policy.images:
            if not _matches(role.image, rule.patterns):
                yield FieldError(f"roles.{index}.image", "IMAGE_NOT_ALLOWED", _not_allowed(rule))


def _values(file: File, policy: EffectivePolicy) -> Iterator[FieldError]:
    for name in policy.allowed:
        yield from find_refused_values(name, file, policy)


def _not_allowed(rule: Patterns) -> str:
    if not rule.patterns:
        return _("%(tenant)s allows no images.") % {"tenant": rule.tenant}
    allowed = {"tenant": rule.tenant, "patterns": ", ".join(rule.patterns)}
    return _("Images allowed by %(tenant)s: %(patterns)s") % allowed


def _matches(image: str, patterns: Sequence[str]) -> bool:
    """Return whether the whole name matches a pattern, in which `*` alone is special and matches any text."""
    return any(_fits(image, pattern) for pattern in patterns)


def _fits(value: str, pattern: str) -> bool:
    # A regular expression would try every division of the value among the asterisks. The first match of a
    # part leaves the most text for the later parts, so that no other match has to be tried.
    first, *parts = pattern.split("*")
    if not parts:
        return value == pattern
    *middle, last = parts
    end = len(value) - len(last)
    if not value.startswith(first) or not value.endswith(last) or end < len(first):
        return False
    at = len(first)
    for part in middle:
        at = value.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
