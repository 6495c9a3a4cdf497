"""Fills in the defaults of a policy in a job file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduling.job_file.declaration.fields import fields_below

_MODES: Final = {field.key: field.only for field in fields_below("roles.resources.gpu") if field.only}
"""The GPU modes that have a field, for fields of cards that not all modes have."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A field that was filled with a default; `field` is its path in the job file."""

    field: str
    value: Any


def fill_defaults(body: Any, defaults: Mapping[str, Any]) -> tuple[Any, list[Filled]]:
    """Return the job file with defaults filled in, and the filled fields. A null field counts as missing.

    A role that requests no cards gets none. A body that is not a mapping is returned unchanged; the parser
    refuses it.
    """
    if not isinstance(body, Mapping) or not defaults:
        return body, []
    filled: list[Filled] = []
    of_roles = defaults.get("roles", {})
    job = _fill(body, {key: value for key, value in defaults.items() if key != "roles"}, "", filled)
    roles = job.get("roles")
    if isinstance(roles, list) and of_roles:
        job["roles"] = [_role(role, of_roles, f"roles.{index}", filled) for index, role in enumerate(roles)]
    return job, filled


def _role(role: Any, defaults: Mapping[str, Any], path: str, filled: list[Filled]) -> Any:
    if not isinstance(role, Mapping):
        return role
    resources = role.get("resources")
    gpu = resources.get("gpu") if isinstance(resources, Mapping) else None
    wanted = dict(defaults)
    if isinstance(defaults.get("resources"), Mapping):
        wanted["resources"] = {key: value for key, value in defaults["resources"].items() if key != "gpu"}
        cards = defaults["resources"].get("gpu")
        if isinstance(gpu, Mapping) and isinstance(cards, Mapping):
            mode = gpu.get("mode") or cards.get("mode") or "whole"
            fitting = {key: value for key, value in cards.items() if mode in _MODES.get(key, (mode,))}
            wanted["resources"]["gpu"] = fitting
    return _fill(role, wanted, path, filled)


def _fill(
    have: Mapping[str, Any], defaults: Mapping[str, Any], path: str, filled: list[Filled]
) -> dict[str, Any]:
    found = dict(have)
    for key, value in defaults.items():
        at = f"{path}.{key}" if path else key
        own = found.get(key)
        if isinstance(value, Mapping) and (own is None or isinstance(own, Mapping)):
            below = _fill(own or {}, value, at, filled)
            if below:
                found[key] = below
        elif own is None:
            found[key] = value
            filled.append(Filled(at, value))
    return found
