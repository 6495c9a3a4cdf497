"""A job file as YAML text for users: empty and default values are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from foundation.core.numbers import read_whole
from scheduling.job_file import FIELDS, to_mapping
from scheduling.job_file.declaration.environment import Variables
from scheduling.job_file.values.kinds import LabelsKind
from scheduling.models import Job


def job_text(job: Job) -> str:
    """Return the job file of a stored job."""
    return spec_text(to_mapping(job))


def spec_text(mapping: Mapping[str, Any]) -> str:
    """Return YAML in the order of the mapping; None, empty lists and empty mappings are left out."""
    pruned = _pruned(mapping, "")
    if pruned.get("gang") == {"min_available": _least(pruned)}:
        pruned.pop("gang")
    if pruned.get("min_run_s") == 0:
        pruned.pop("min_run_s")
    for role in pruned.get("roles", ()):
        resources = role.get("resources") if isinstance(role, dict) else None
        cores = read_whole(str(resources.get("cpu", ""))) if isinstance(resources, dict) else None
        if isinstance(resources, dict) and cores is not None:
            resources["cpu"] = cores
        if isinstance(role, dict) and role.get("min_replicas") == role.get("replicas"):
            role.pop("min_replicas", None)
    return yaml.safe_dump(pruned, sort_keys=False, allow_unicode=True, width=100)


def _pruned(value: Any, path: str) -> Any:
    field = FIELDS.get(path)
    if field and isinstance(field.kind, LabelsKind | Variables):
        return value  # an empty value of a variable or label is a value
    if isinstance(value, Mapping):
        found = {key: _pruned(item, f"{path}.{key}" if path else key) for key, item in value.items()}
        return {key: item for key, item in found.items() if item not in (None, "", [], {})}
    if isinstance(value, list | tuple):
        return [_pruned(item, path) for item in value]
    return value


def _least(mapping: Mapping[str, Any]) -> int | None:
    """Return the default of the gang: the sum of the roles' minimum sizes; None if one is no number."""
    sizes = [role.get("min_replicas", role.get("replicas", 1)) for role in mapping.get("roles", ())]
    return sum(sizes) if all(isinstance(size, int) for size in sizes) else None
