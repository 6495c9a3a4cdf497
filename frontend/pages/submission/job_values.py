"""Conversion between the job file and the flat values of the form, by the declaration of the fields.

The form shows the fields that are declared for it, if their values fit into its inputs. Other content of a
file stays in the file: `carry_changes` only changes what was changed in the form. Values stay as entered: the
parser of job files checks them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from django.utils.translation import gettext as _

from foundation.core.errors import FieldError, Invalid
from foundation.core.numbers import read_whole
from foundation.core.yaml_edit import same_values
from frontend.pages.submission.list_inputs import carry_entries, find_mistakes, read_entries, show_entries
from scheduling.job_file.declaration.environment import Variables
from scheduling.job_file.declaration.field import Field
from scheduling.job_file.declaration.fields import ALL, FIELDS, fields_below, keys_below
from scheduling.job_file.parsing.tags import join_tags, split_tags
from scheduling.job_file.values.kinds import Cpu, Flag, LabelsKind, Number, Parts, Percent, Tags, Texts, Whole
from scheduling.policy.trees import merge_trees, put_value, value_at

Values = dict[str, Any]

_MISSING: Final = object()

SHOWN: Final = tuple(each for each in ALL if each.form)
OF_JOB: Final = tuple(each for each in SHOWN if not each.path.startswith("roles."))
OF_ROLE: Final = tuple(each for each in SHOWN if each.path.startswith("roles."))
_GPU: Final = "resources.gpu"
_LINES: Final = (LabelsKind, Variables)
_NUMBERS: Final = (Whole, Number, Percent, Cpu)
_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}\.[0-9]{1,60}")
_COMMAND_MAX: Final = 64 * 1024
ROLES_MAX: Final = cast(Parts, FIELDS["roles"].kind).most


@dataclass(slots=True)
class FormValues:
    """A job as the form shows it; `rest`, and `more` of each role, is content of a file beyond the form."""

    main: Values
    roles: list[Values]
    rest: dict[str, Any] = field(default_factory=dict)


def to_form(mapping: Mapping[str, Any]) -> FormValues:
    """Return the values of a job file; content that does not fit into an input stays in `rest`."""
    body = {str(key): value for key, value in mapping.items()}
    main: Values = {each.input_name: _take(body, each.path, each) for each in OF_JOB}
    roles = body.pop("roles", None)
    found = [_role(role) for role in roles if isinstance(role, Mapping)] if isinstance(roles, list) else []
    return FormValues(main, found or [{}], _pruned(body))


def check_shown(mapping: Mapping[str, Any]) -> None:
    """Check that the form can show the roles of a file. Raises: Invalid."""
    roles = mapping.get("roles")
    if roles is None or (
        isinstance(roles, list) and 0 < len(roles) <= ROLES_MAX and all(isinstance(r, Mapping) for r in roles)
    ):
        return
    message = _("Roles must be a list of 1 to %(limit)s maps.") % {"limit": ROLES_MAX}
    raise Invalid(message, code="SPEC_INVALID", errors=[FieldError("roles", "TYPE", message)])


def carry_changes(source: Mapping[str, Any], typed: FormValues) -> dict[str, Any]:
    """Return the job file `source` with the changes that were made in the form since it showed that file."""
    base = to_form(source)
    before = FormValues(_texts(base.main), [_texts(role) for role in base.roles], base.rest)
    more = [role.get("more", {}) for role in base.roles] + [{}] * len(typed.roles)
    roles = [role | {"more": retained} for role, retained in zip(typed.roles, more, strict=False)]
    after = FormValues(typed.main, roles, base.rest)
    found: dict[str, Any] = {**_carried(source, to_mapping(before), to_mapping(after), "")}
    for each in (each for each in OF_JOB if isinstance(each.kind, Parts) and each.key in found):
        if isinstance(listed := source.get(each.key), list):
            texts = (str(values.main.get(each.input_name) or "") for values in (before, after))
            found[each.key] = carry_entries(each.path, listed, *texts)
    return found


def line_errors(values: FormValues) -> list[FieldError]:
    """Return the errors of texts that contain several values, each at its field."""
    errors: list[FieldError] = []
    for place, texts in [("", values.main), *((f"roles.{n}.", role) for n, role in enumerate(values.roles))]:
        for each in OF_ROLE if place else OF_JOB:
            text, path = str(texts.get(each.input_name) or ""), place + each.path.removeprefix("roles.")
            if isinstance(each.kind, Parts):
                errors += [FieldError(path, "FORMAT", said) for said in find_mistakes(each.path, text)]
            elif isinstance(each.kind, _LINES):
                errors += [FieldError(path, "FORMAT", said) for said in _line_mistakes(text, each)]
            elif _is_program(each) and not _is_command(text):
                errors.append(
                    FieldError(path, "FORMAT", _("Close every quote, for example python 'my train.py'."))
                )
    return errors


def to_mapping(values: FormValues) -> dict[str, Any]:
    """Return the job file that the form describes, in the file's usual order."""
    typed = _typed(OF_JOB, values.main, "")
    typed["roles"] = [_role_mapping(role) for role in values.roles]
    # Values from secrets and config maps stay in `rest`; an entered value of the same name replaces them.
    found = merge_trees(typed, values.rest)
    for each in OF_JOB:
        if isinstance(each.kind, Parts) and isinstance(rest := values.rest.get(each.key), list):
            found[each.key] = [*typed.get(each.key, ()), *rest]
    return _ordered(found, "")


def field_of(path: str) -> tuple[int | None, str]:
    """Return the form field of a path in the file: (role's place, field), or (None, "") without one."""
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
    """Return names of the content beyond the form: for a mapping that the form shows in part, each key."""
    names: list[str] = []
    for key, value in rest.items():
        path = f"{above}{key}"
        inner = value if isinstance(value, Mapping) else {}
        in_part = any(each.path.startswith(f"{path}.") for each in SHOWN)
        names += [f"{key}.{below}" for below in inner] if in_part and inner else [key]
    return names


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
    more = dict(role.get("more") or {})
    if mode == "none" and isinstance(more.get("resources"), Mapping):
        more["resources"] = {key: value for key, value in more["resources"].items() if key != "gpu"}
    return _ordered(merge_trees(typed, more), "roles")


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
    """Return the value of a text; None for an empty one."""
    if isinstance(shown.kind, Parts):
        return read_entries(shown.path, str(value)) or None
    if isinstance(shown.kind, _LINES):
        return _pairs(value) or None
    if isinstance(shown.kind, Tags):
        return split_tags(str(value)) or None
    if isinstance(shown.kind, Texts):
        return _split(str(value))
    return _number(value) if isinstance(shown.kind, _NUMBERS) else value


def _take(body: dict[str, Any], path: str, shown: Field) -> Any:
    """Remove the value at a path from the file, and return it as its input shows it; values of another type
    stay.
    """
    head, _dot, below = path.partition(".")
    value = body.get(head)
    if below:
        if not isinstance(value, Mapping):
            return None
        body[head] = inner = {str(key): item for key, item in value.items()}
        return _take(inner, below, shown)
    if isinstance(shown.kind, Flag):
        return body.pop(head, shown.default) is not False
    if isinstance(shown.kind, Parts) and isinstance(value, list):
        text, places = show_entries(shown.path, value)
        body[head] = [entry for place, entry in enumerate(value) if place not in places]
        return text
    if isinstance(shown.kind, _LINES) and isinstance(value, Mapping):
        lines = {name: f"{name}={item}" for name, item in value.items() if _is_line(name, item)}
        body[head] = {name: item for name, item in value.items() if name not in lines}
        return "\n".join(lines.values())
    if isinstance(shown.kind, Tags) and isinstance(value, list):
        text = join_tags(map(str, value))
        fits = text.isprintable() and split_tags(text) == [str(one) for one in value]
        if any(map(_nested, value)) or not fits:
            return None
        body.pop(head)
        return text
    if isinstance(shown.kind, Texts) and isinstance(value, list):
        command = shlex.join(map(str, value))
        return None if any(map(_nested, value)) or "\r" in command else body.pop(head) and command
    return None if _nested(value) or not str(value).isprintable() else body.pop(head, None)


def _pruned(rest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file without its empty parts."""
    found = {key: _pruned(value) if isinstance(value, Mapping) else value for key, value in rest.items()}
    return {key: value for key, value in found.items() if value not in (None, {}, [], "")}


def _ordered(mapping: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the keys of a mapping in the order of a job file, unknown ones last."""
    order = {key: place for place, key in enumerate(keys_below(path))}
    return {key: mapping[key] for key in sorted(mapping, key=lambda key: order.get(key, len(order)))}


def _carried(source: Any, before: Any, after: Any, path: str) -> Any:
    """Return the part of a file at `path` with the differences between `before` and `after`."""
    if same_values(before, after):
        return source
    if isinstance(after, list) and path == "roles":
        sources = [*(source if isinstance(source, list) else ()), *[{}] * len(after)]
        olds = [*(before if isinstance(before, list) else ()), *[{}] * len(after)]
        return [_carried(*parts, path) for parts in zip(sources, olds, after, strict=False)]
    if not isinstance(after, Mapping):
        return after
    old = before if isinstance(before, Mapping) else {}
    found = dict(source) if isinstance(source, Mapping) else {}
    for key in [*old, *(key for key in after if key not in old)]:
        if key in after and same_values(old.get(key, _MISSING), after[key]):
            continue
        if key in after:
            below = f"{path}.{key}" if path else key
            _place(found, key, _carried(found.get(key), old.get(key), after[key], below), path)
        elif isinstance(found.get(key), Mapping) and isinstance(old[key], Mapping):
            retained = _carried(found[key], old[key], {}, path)
            found = {name: value for name, value in found.items() if name != key or retained}
            if retained:
                found[key] = retained
        else:
            found.pop(key, None)
    return found


def _place(mapping: dict[str, Any], key: str, value: Any, path: str) -> None:
    """Set a value; a new key is placed after those that precede it in a job file."""
    if key in mapping:
        mapping[key] = value
        return
    order = keys_below(path)
    ahead = order[: order.index(key)] if key in order else order
    last = max((place for place, name in enumerate(mapping) if name in ahead), default=len(mapping) - 1)
    items = list(mapping.items())
    mapping.clear()
    mapping.update([*items[: last + 1], (key, value), *items[last + 1 :]])


def _texts(values: Values) -> Values:
    """Return values as a browser sends them."""
    return {
        key: value if value is None or isinstance(value, bool | Mapping) else str(value)
        for key, value in values.items()
    }


def _is_line(name: str, item: Any) -> bool:
    """Return whether a variable or label stays the same when it is written as a line and read again."""
    fits = isinstance(item, str | int | float) and not isinstance(item, bool)
    return fits and "\r" not in f"{name}{item}" and _pairs(f"{name}={item}") == {name: str(item)}


def _line_mistakes(text: str, shown: Field) -> list[str]:
    names = [line.partition("=") for line in text.splitlines() if line.strip()]
    seen: set[str] = set()
    mistakes: list[str] = []
    for typed, equals, value in names:
        name = typed.strip()
        if not equals or not name:
            example = "disktype=ssd" if isinstance(shown.kind, LabelsKind) else "LR=0.1"
            place = {"line": (typed + equals + value).strip()[:60], "example": example}
            mistakes.append(_("Use NAME=value, for example %(example)s, instead of: %(line)s") % place)
        elif name in seen:
            mistakes.append(_("%(name)s is set more than once.") % {"name": name[:60]})
        seen.add(name)
    return mistakes


def _is_program(shown: Field) -> bool:
    return isinstance(shown.kind, Texts) and not isinstance(shown.kind, Tags)


def _is_command(text: str) -> bool:
    if len(text) > _COMMAND_MAX:
        return True  # the parser of job files reports that it is too long
    try:
        shlex.split(text)
    except ValueError:
        return False
    return True


def _nested(value: object) -> bool:
    return isinstance(value, Mapping | list)


def _number(value: Any) -> Any:
    """Return a number if the text is one; any other text stays, for the parser to report."""
    text = str(value).strip()
    if _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else value


def _pairs(text: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in str(text or "").splitlines():
        if line.strip():
            name, equals, value = line.strip().partition("=")
            if equals and name.strip():  # `line_errors` reports the others
                found[name.strip()] = value.strip()
    return found


def _split(command: str) -> Sequence[str]:
    if len(command) > _COMMAND_MAX:
        return [command]  # too long in any case, and splitting it takes time for each character
    try:
        return shlex.split(command)
    except ValueError:
        return [command]
