"""Recommendations that are applied to a copy of a job: as a link, and to the job file that the link opens."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from foundation.core.bounded_parsing import ParseBounds, TextError, load_json
from foundation.core.numbers import read_whole
from foundation.core.quantities import Resource
from frontend.texts.recommendations import names_in, numbers_of

File = dict[str, Any]
Item = Mapping[str, Any]

_BOUNDS: Final = ParseBounds(size=8 * 1024, nodes=400)


def change_query(item: Item, helps: Sequence[Any]) -> str:
    """Return the part of an address that contains the changes."""
    return urlencode({"change": change_text(item, helps)})


def change_text(item: Item, helps: Sequence[Any]) -> str:
    """Return the changes of a recommendation, and of those that only help together with it, for
    `apply_changes`.
    """
    others = (other for other in helps if isinstance(other, Mapping) and other is not item)
    both = [item, *(other for other in others if _belongs(item, other))]
    content = [{"code": each.get("code"), "numbers": each.get("numbers", {})} for each in both]
    return json.dumps(content, separators=(",", ":"))


def apply_changes(mapping: Mapping[str, Any], text: str) -> File:
    """Return the job file with the changes of a text; changes that do not apply to it are ignored."""
    file: File = json.loads(json.dumps(dict(mapping)))
    try:
        items = load_json(text, _BOUNDS) if text else []
    except TextError:
        return file
    for item in items if isinstance(items, list) else []:
        numbers = item.get("numbers") if isinstance(item, Mapping) else None
        change = CHANGES.get(str(item.get("code"))) if isinstance(item, Mapping) else None
        if change is not None and isinstance(numbers, Mapping):
            change(file, numbers)
    return file


def _belongs(item: Item, other: Item) -> bool:
    return str(other.get("code")) in names_in(numbers_of(item).get("with"))


def _role(file: File, numbers: Item) -> File:
    """Return the role that a recommendation names, or the only one; else a mapping outside the file."""
    roles = [role for role in file.get("roles") or [] if isinstance(role, dict)]
    name = numbers.get("role")
    found = next((role for role in roles if role.get("name") == name), None)
    return found if found is not None else (roles[0] if len(roles) == 1 else {})


def _resources(file: File, numbers: Item) -> File:
    resources = _role(file, numbers).get("resources")
    return resources if isinstance(resources, dict) else {}


def _gpu(file: File, numbers: Item) -> File:
    gpu = _resources(file, numbers).get("gpu")
    return gpu if isinstance(gpu, dict) else {}


def _fewer_cards(file: File, numbers: Item) -> None:
    cards = read_whole(str(numbers.get("cards", "")))
    if cards:
        _gpu(file, numbers)["cards"] = cards


def _fewer_tasks(file: File, numbers: Item) -> None:
    tasks = read_whole(str(numbers.get("tasks", "")))
    if tasks:
        _role(file, numbers).update(replicas=tasks, min_replicas=tasks)
        file["gang"] = {"min_available": None}


def _less(file: File, numbers: Item) -> None:
    limit = read_whole(str(numbers.get("each", numbers.get("limit", ""))))
    resources = _resources(file, numbers)
    if not limit:
        return
    match numbers.get("resource"):
        case Resource.CPU:
            resources["cpu"] = f"{limit}m"
        case Resource.MEMORY:
            resources["memory"] = f"{limit}Mi"
        case Resource.GPU_MEMORY:
            _gpu(file, numbers)["memory"] = f"{limit}Mi"


def _other_model(file: File, numbers: Item) -> None:
    models = names_in(numbers.get("models"))
    if models:
        _gpu(file, numbers)["model"] = models


def _other_profile(file: File, numbers: Item) -> None:
    profiles = names_in(numbers.get("profiles"))
    if profiles:
        _gpu(file, numbers)["profile"] = profiles[0]


_SELECTORS: Final = {"node-name": "node_name", "node-selector": "node_selector"}
_REQUIRED: Final = {
    "node-affinity": "node_affinity",
    "pod-affinity": "pod_affinity",
    "pod-anti-affinity": "pod_anti_affinity",
}


def _loosen(file: File, numbers: Item) -> None:
    placement, veto = file.setdefault("placement", {}), str(numbers.get("veto"))
    if not isinstance(placement, dict):
        return
    placement.pop(_SELECTORS.get(veto, ""), None)
    rule = placement.get(_REQUIRED.get(veto, ""))
    if isinstance(rule, dict):
        rule.pop("required", None)
    if veto == "taint":
        placement["tolerations"] = [*(placement.get("tolerations") or []), {"operator": "Exists"}]


def _preemptible(file: File, numbers: Item) -> None:
    file["preemptible"] = True


CHANGES: Final[dict[str, Callable[[File, Item], None]]] = {
    "ASK_FEWER_CARDS": _fewer_cards,
    "ASK_FEWER_TASKS": _fewer_tasks,
    "ASK_LESS": _less,
    "ASK_OTHER_MODEL": _other_model,
    "ASK_OTHER_PROFILE": _other_profile,
    "LOOSEN_PLACEMENT": _loosen,
    "MAKE_PREEMPTIBLE": _preemptible,
}
