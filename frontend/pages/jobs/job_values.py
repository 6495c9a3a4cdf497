"""Conversion between the job file and the flat values of the form, by the declaration of the fields.

The form shows the fields that are declared so. What a file says beyond them travels along as `rest`, and of a
role as `more`, so that going to the form and back loses nothing. Values stay as typed: whether they are right
is for the parser of job files to say.
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
from scheduling.job_file.environment import Variables
from scheduling.job_file.field import Field
from scheduling.job_file.fields import ALL, FIELDS, fields_below, keys_below
from scheduling.job_file.kinds import Cpu, Flag, LabelsKind, Number, Percent, Texts, Whole
from scheduling.policy.trees import merge_trees, put_value, value_at

Values = dict[str, Any]

SHOWN: Final = tuple(each for each in ALL if each.form)
OF_JOB: Final = tuple(each for each in SHOWN if not each.path.startswith("roles."))
OF_ROLE: Final = tuple(each for each in SHOWN if each.path.startswith("roles."))
_GPU: Final = "resources.gpu"
_LINES: Final = (LabelsKind, Variables)
_NUMBERS: Final = (Whole, Number, Percent, Cpu)
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
    main: Values = {each.input_name: _take(body, each.path, each) for each in OF_JOB}
    roles = body.pop("roles", None)
    found = [_role(role) for role in roles if isinstance(role, Mapping)] if isinstance(roles, list) else []
    return FormValues(main, found or [{}], _pruned(body))


def to_mapping(values: FormValues) -> dict[str, Any]:
    """The job file that the form stands for, in the file's usual order."""
    typed = _typed(OF_JOB, values.main, "")
    typed["roles"] = [_role_mapping(role) for role in values.roles]
    # What is read from secrets and config maps travels along in `rest`; what is typed beside it counts.
    return _ordered(merge_trees(typed, values.rest), "")


def field_of(path: str) -> tuple[int | None, str]:
    """The form field of a path in the file: (role's place, field), or (None, "") where there is none."""
    place: int | None = None
    parts = path.split(".")
    if parts[0] == "roles" and len(parts) > 1:
        place = read_whole(parts[1])
        parts = ["roles", *parts[2:]]
    for length in range(len(parts), 0, -1):
        if name := _input_at(".".join(parts[:length])):
            return place, name
    return None, ""


def named_rest(rest: Mapping[str, Any], above: str = "") -> list[str]:
    """Names of what a file says beyond the form: of a mapping that the form shows in part, each key."""
    names: list[str] = []
    for key, value in rest.items():
        path = f"{above}{key}"
        inner = value if isinstance(value, Mapping) else {}
        in_part = any(each.path.startswith(f"{path}.") for each in SHOWN)
        names += [f"{key}.{below}" for below in inner] if in_part and inner else [key]
    return names


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


def _input_at(path: str) -> str:
    if path in ("roles.resources.gpu", "roles.resources.gpu.mode", "roles.resources.gpu.model"):
        return "gpu"
    declared = FIELDS.get(path)
    if declared is None or declared.form:
        return declared.input_name if declared else ""
    below = fields_below(path)
    return below[0].input_name if len(below) == 1 and below[0].form else ""


def _role(role: Mapping[str, Any]) -> Values:
    more = {str(key): value for key, value in role.items()}
    values: Values = {"gpu": "none"}
    gpu = value_at(more, _GPU)
    if isinstance(gpu, Mapping):
        models = gpu.get("model")
        named = models if isinstance(models, list) else [models] if models else []
        if gpu.get("cards", 1) != 0:
            values["gpu"] = f"{gpu.get('mode', 'whole')}:{','.join(str(model) for model in named)}"
        rest = {key: value for key, value in gpu.items() if key not in ("mode", "model")}
        more["resources"] = {**more["resources"], "gpu": rest}
    for each in OF_ROLE:
        values[each.input_name] = _take(more, each.path.removeprefix("roles."), each)
    values["more"] = _pruned(more)
    return values


def _role_mapping(role: Values) -> dict[str, Any]:
    mode, _colon, models = str(role.get("gpu") or "none").partition(":")
    fields = [each for each in OF_ROLE if _GPU not in each.path or mode in (each.only or (mode,))]
    if mode == "none":
        fields = [each for each in fields if _GPU not in each.path]
    typed = _typed(fields, role, "roles.")
    if mode != "none":
        put_value(typed, f"{_GPU}.mode", mode)
        if value_at(typed, f"{_GPU}.cards") is None:
            put_value(typed, f"{_GPU}.cards", 1)
        if models:
            put_value(typed, f"{_GPU}.model", models.split(","))
    return _ordered(merge_trees(typed, role.get("more") or {}), "roles")


def _typed(fields: Sequence[Field], values: Values, above: str) -> dict[str, Any]:
    """Return the input of these fields in the shape of a job file."""
    found: dict[str, Any] = {}
    for each in fields:
        value = values.get(each.input_name)
        if isinstance(each.kind, Flag):
            put_value(found, each.path.removeprefix(above), bool(value))
        elif value not in (None, "") and (said := _from_text(each, value)) is not None:
            put_value(found, each.path.removeprefix(above), said)
    return found


def _from_text(shown: Field, value: Any) -> Any:
    """The value that a text stands for; None where it stands for nothing."""
    if isinstance(shown.kind, _LINES):
        return _pairs(value) or None
    if isinstance(shown.kind, Texts):
        return _split(str(value))
    return _number(value) if isinstance(shown.kind, _NUMBERS) else value


def _take(body: dict[str, Any], path: str, shown: Field) -> Any:
    """Move the value at a path out of the file, as its input shows it; a value of another shape stays."""
    head, _dot, below = path.partition(".")
    value = body.get(head)
    if below:
        if not isinstance(value, Mapping):
            return None
        body[head] = inner = {str(key): item for key, item in value.items()}
        return _take(inner, below, shown)
    if isinstance(shown.kind, Flag):
        return body.pop(head, shown.default) is not False
    if isinstance(shown.kind, _LINES) and isinstance(value, Mapping):
        body[head] = {name: item for name, item in value.items() if _nested(item)}
        return "\n".join(f"{name}={item}" for name, item in value.items() if not _nested(item))
    if isinstance(shown.kind, Texts) and isinstance(value, list):
        return shlex.join(str(part) for part in body.pop(head))
    return None if _nested(value) else body.pop(head, None)


def _pruned(rest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file without its empty parts."""
    found = {key: _pruned(value) if isinstance(value, Mapping) else value for key, value in rest.items()}
    return {key: value for key, value in found.items() if value not in (None, {}, [], "")}


def _ordered(mapping: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The keys of a mapping in the order of a job file, unknown ones last."""
    order = {key: place for place, key in enumerate(keys_below(path))}
    return {key: mapping[key] for key in sorted(mapping, key=lambda key: order.get(key, len(order)))}


def _nested(value: object) -> bool:
    return isinstance(value, Mapping | list)


def _number(value: Any) -> Any:
    """A number where the text is one; anything else stays for the parser to complain about."""
    text = str(value).strip()
    if _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else value


def _pairs(text: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in str(text or "").splitlines():
        if line.strip():
            name, equals, value = line.strip().partition("=")
            # Without an equals sign there is no value, and the parser names the line.
            found[name.strip()] = value.strip() if equals else None
    return found


def _split(command: str) -> Sequence[str]:
    if len(command) > _COMMAND_MAX:
        return [command]  # too long whatever it is, and taking it apart goes character by character
    try:
        return shlex.split(command)
    except ValueError:
        return [command]
