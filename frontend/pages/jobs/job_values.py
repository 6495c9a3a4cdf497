"""Between the job file and the flat values of the form, in both directions.

The form knows the common fields. What a file says beyond them travels along as `rest`, and of a role as
`more`, so that going to the form and back loses nothing. Values stay as typed: whether they are right is
for the spec to say.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from foundation.core.bounded_parsing import ParseBounds, TextError, load_json
from foundation.core.numbers import read_whole

Values = dict[str, Any]

PLAIN: Final = ("kind", "name", "queue", "priority_class")
NUMBERS: Final = ("min_run_s", "max_run_s", "checkpoint_interval_s")
SIMULATE: Final = ("run_s", "gpu_utilisation", "exit_code")
_ROLE_KEYS: Final = ("name", "replicas", "min_replicas", "image", "command", "resources")
_MORE_RESOURCES: Final = ("limits", "exclusive_cpus")
_GPU_KEYS: Final = ("cards", "mode", "cores", "memory", "model", "profile")
_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}\.[0-9]{1,60}")
_REST_BOUNDS: Final = ParseBounds(size=256 * 1024, nodes=20_000)
_COMMAND_MAX: Final = 64 * 1024


@dataclass(slots=True)
class FormValues:
    """A job as the form shows it."""

    main: Values
    roles: list[Values]
    rest: dict[str, Any] = field(default_factory=dict)


def to_form(mapping: Mapping[str, Any]) -> FormValues:
    """The values of a job file; anything that is not of the expected shape stays in `rest`."""
    body = {str(key): value for key, value in mapping.items()}
    main: Values = {key: body.pop(key) for key in (*PLAIN, *NUMBERS) if not _nested(body.get(key))
                    and key in body}  # fmt: skip
    main["preemptible"] = body.pop("preemptible", True) is not False
    main["min_available"] = _take(body, "gang", "min_available")
    for key in SIMULATE:
        main[key] = _take(body, "simulate", key)
    main["environment"] = _lines(body, "environment")
    placement = dict(body["placement"]) if isinstance(body.get("placement"), Mapping) else None
    if placement is not None:
        main["node_selector"] = _lines(placement, "node_selector")
        body["placement"] = {key: value for key, value in placement.items() if value != {}}
    roles = body.pop("roles", None)
    found = [_role(role) for role in roles if isinstance(role, Mapping)] if isinstance(roles, list) else []
    rest = {key: value for key, value in body.items() if value not in (None, {}, [], "")}
    return FormValues(main, found or [{}], rest)


def to_mapping(values: FormValues) -> dict[str, Any]:
    """The job file that the form stands for, in the file's usual order."""
    main, rest = values.main, dict(values.rest)
    found: dict[str, Any] = {key: main[key] for key in PLAIN if main.get(key)}
    found["preemptible"] = bool(main.get("preemptible"))
    found |= {key: _number(main[key]) for key in NUMBERS if _said(main.get(key))}
    if _said(main.get("min_available")):
        found["gang"] = {"min_available": _number(main["min_available"])}
    found["roles"] = [_role_mapping(role) for role in values.roles]
    placement = rest.get("placement") or {}
    # A placement of another shape stays in `rest`, where the spec complains about it.
    if isinstance(placement, Mapping):
        rest.pop("placement", None)
        selector = _pairs(main.get("node_selector"))
        if chosen := {**placement, **({"node_selector": selector} if selector else {})}:
            found["placement"] = chosen
    environment = rest.get("environment") or {}
    # What is read from secrets and config maps travels along; what is typed beside it counts.
    if isinstance(environment, Mapping):
        rest.pop("environment", None)
        if merged := {**environment, **_pairs(main.get("environment"))}:
            found["environment"] = merged
    if simulate := {key: _number(main[key]) for key in SIMULATE if _said(main.get(key))}:
        found["simulate"] = simulate
    return found | rest


def field_of(path: str) -> tuple[int | None, str]:
    """The form field of a path in the file: (role's place, field), or (None, "") where there is none."""
    match path.split("."):
        case ["roles", role, *below] if (place := read_whole(role)) is not None:
            return _role_field(place, below)
        case ["gang", *_]:
            return None, "min_available"
        case ["simulate", key, *_] if key in SIMULATE:
            return None, key
        case ["placement", "node_selector", *_]:
            return None, "node_selector"
        case [key, *_] if key in (*PLAIN, *NUMBERS, "environment"):
            return None, key
    return None, ""


def _role_field(place: int, below: Sequence[str]) -> tuple[int | None, str]:
    match below:
        case ["resources", "gpu", key, *_]:
            return place, {"mode": "gpu", "model": "gpu"}.get(key, key if key in _GPU_KEYS else "gpu")
        case ["resources", ("cpu" | "memory" | "gpu") as key, *_]:
            return place, "role_memory" if key == "memory" else key
        case [key, *_] if key in _ROLE_KEYS:
            return place, key
    return None, ""


def rest_text(rest: Mapping[str, Any]) -> str:
    """`rest` for a hidden field."""
    return json.dumps(rest) if rest else ""


def read_rest(text: str) -> dict[str, Any]:
    """`rest` back from a hidden field; what is not ours is dropped."""
    try:
        found = load_json(text, _REST_BOUNDS) if text else {}
    except TextError:
        return {}
    return found if isinstance(found, dict) else {}


def _role(role: Mapping[str, Any]) -> Values:
    values = {key: role.get(key) for key in ("name", "replicas", "min_replicas", "image")}
    command = role.get("command")
    values["command"] = shlex.join(str(part) for part in command) if isinstance(command, list) else command
    more = {key: value for key, value in role.items() if key not in _ROLE_KEYS}
    resources = role.get("resources")
    resources = resources if isinstance(resources, Mapping) else {}
    more |= {key: resources[key] for key in _MORE_RESOURCES if key in resources}
    values["more"] = more
    values |= {"cpu": resources.get("cpu"), "role_memory": resources.get("memory"), "gpu": "none"}
    gpu = resources.get("gpu")
    if isinstance(gpu, Mapping) and gpu.get("cards", 1) != 0:
        models = gpu.get("model")
        named = models if isinstance(models, list) else [models] if models else []
        values["gpu"] = f"{gpu.get('mode', 'whole')}:{','.join(str(model) for model in named)}"
        values |= {key: gpu.get(key) for key in ("cards", "cores", "memory", "profile")}
    return values


def _role_mapping(role: Values) -> dict[str, Any]:
    found: dict[str, Any] = {"name": role.get("name")} if role.get("name") else {}
    found |= {key: _number(role[key]) for key in ("replicas", "min_replicas") if _said(role.get(key))}
    if role.get("image"):
        found["image"] = role["image"]
    if role.get("command"):
        found["command"] = _split(str(role["command"]))
    resources: dict[str, Any] = {}
    if _said(role.get("cpu")):
        resources["cpu"] = _number(role["cpu"])
    if _said(role.get("role_memory")):
        resources["memory"] = role["role_memory"]
    if gpu := _gpu_mapping(role):
        resources["gpu"] = gpu
    more = dict(role.get("more") or {})
    resources |= {key: more.pop(key) for key in _MORE_RESOURCES if key in more}
    return found | more | ({"resources": resources} if resources else {})


def _gpu_mapping(role: Values) -> dict[str, Any]:
    mode, _colon, models = str(role.get("gpu") or "none").partition(":")
    if mode == "none":
        return {}
    found: dict[str, Any] = {"cards": _number(role.get("cards") or 1), "mode": mode}
    if mode == "slice":
        found |= {"cores": _number(role["cores"])} if _said(role.get("cores")) else {}
        found |= {"memory": role["memory"]} if _said(role.get("memory")) else {}
    if mode == "mig" and role.get("profile"):
        found["profile"] = role["profile"]
    if models:
        found["model"] = models.split(",")
    return found


def _said(value: object) -> bool:
    return value not in (None, "")


def _nested(value: object) -> bool:
    return isinstance(value, Mapping | list)


def _number(value: Any) -> Any:
    """A number where the text is one; anything else stays for the spec to complain about."""
    text = str(value).strip()
    if _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else value


def _take(body: dict[str, Any], section: str, key: str) -> Any:
    """Move one value out of a section of the file."""
    part = body.get(section)
    if not isinstance(part, Mapping) or _nested(part.get(key)):
        return None
    body[section] = {name: value for name, value in part.items() if name != key}
    return part.get(key)


def _lines(body: dict[str, Any], key: str) -> str:
    """Move the texts of a mapping out as `KEY=value` lines."""
    value = body.get(key)
    if not isinstance(value, Mapping):
        return ""
    body[key] = {name: item for name, item in value.items() if _nested(item)}
    return "\n".join(f"{name}={item}" for name, item in value.items() if not _nested(item))


def _pairs(text: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in str(text or "").splitlines():
        if line.strip():
            name, equals, value = line.strip().partition("=")
            # Without an equals sign there is no value, and the spec names the line.
            found[name.strip()] = value.strip() if equals else None
    return found


def _split(command: str) -> Sequence[str]:
    if len(command) > _COMMAND_MAX:
        return [command]  # too long whatever it is, and taking it apart goes character by character
    try:
        return shlex.split(command)
    except ValueError:
        return [command]
