"""A job file as YAML text for people: what is empty or usual is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from scheduling.job_file import to_mapping
from scheduling.models import Job


def job_text(job: Job) -> str:
    """The job file of a stored job."""
    return spec_text(to_mapping(job))


def spec_text(mapping: Mapping[str, Any]) -> str:
    """YAML in the order of the mapping; nothing, empty lists and empty mappings are left out."""
    pruned = _pruned(mapping)
    if pruned.get("gang", {}).get("min_available") == _least(pruned):
        pruned.pop("gang")
    if pruned.get("min_run_s") == 0:
        pruned.pop("min_run_s")
    for role in pruned.get("roles", ()):
        resources = role.get("resources") if isinstance(role, dict) else None
        if isinstance(resources, dict) and str(resources.get("cpu", "")).isdecimal():
            resources["cpu"] = int(resources["cpu"])
        if isinstance(role, dict) and role.get("min_replicas") == role.get("replicas"):
            role.pop("min_replicas", None)
    return yaml.safe_dump(pruned, sort_keys=False, allow_unicode=True, width=100)


def _pruned(value: Any) -> Any:
    if isinstance(value, Mapping):
        found = {key: _pruned(item) for key, item in value.items()}
        return {key: item for key, item in found.items() if item not in (None, "", [], {})}
    if isinstance(value, list | tuple):
        return [_pruned(item) for item in value]
    return value


def _least(mapping: Mapping[str, Any]) -> int:
    """Return the default of the gang: the sum of the roles' minimum sizes."""
    roles = mapping.get("roles", ())
    return sum(role.get("min_replicas", role.get("replicas", 1)) for role in roles)
