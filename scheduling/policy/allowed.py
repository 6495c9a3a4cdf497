"""The fields of a job file whose values a policy may restrict to a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from scheduling.job_file.declaration.field import Limited
from scheduling.job_file.declaration.fields import ALL
from scheduling.policy.trees import values_at

File = Mapping[str, Any]
"""A job file with every default written out."""
Value = tuple[str, str]
"""(path in the job file, value as text)."""


def _declared(path: str) -> Callable[[File], Iterator[Value]]:
    def list_values(file: File) -> Iterator[Value]:
        return ((place, str(value)) for place, value in values_at(file, path) if value not in (None, ""))

    return list_values


def _parts(file: File) -> Iterator[Value]:
    return ((f"placement.{name}", name) for name in file["placement"])


def _selector(file: File) -> Iterator[Value]:
    labels: Mapping[str, str] = file["placement"].get("node_selector", {})
    return ((f"placement.node_selector.{key}", f"{key}={value}") for key, value in labels.items())


def _tolerations(file: File) -> Iterator[Value]:
    for place, item in values_at(file["placement"].get("tolerations", ()), "", "placement.tolerations"):
        yield f"{place}.key", item.get("key", "*")


def _volumes(file: File) -> Iterator[Value]:
    kinds = ("claim", "empty", "config", "secret")
    for place, volume in values_at(file["volumes"], "", "volumes"):
        yield from ((place, kind) for kind in kinds if kind in volume)


def _variables_from(kind: str) -> Callable[[File], Iterator[Value]]:
    def list_values(file: File) -> Iterator[Value]:
        for name, value in file["environment"].items():
            if not isinstance(value, str) and kind in value:
                yield f"environment.{name}.{kind}", value[kind]
        yield from values_at(file, f"environment_from.{kind}")

    return list_values


_OWN: Final[Mapping[str, Callable[[File], Iterator[Value]]]] = {
    "volumes": _volumes,
    "placement": _parts,
    "placement.node_selector": _selector,
    "placement.tolerations": _tolerations,
}
CHOICES: Final[Mapping[str, Callable[[File], Iterator[Value]]]] = {
    **{
        field.path: _OWN.get(field.path, _declared(field.path))
        for field in ALL
        if field.policy is Limited.VALUES
    },
    "environment.secret": _variables_from("secret"),
    "environment.config": _variables_from("config"),
}
"""The functions that list the values of a job, by name. A field that a job does not set has no value.

`placement` lists the parts of the placement that a job sets, `volumes` the kinds of its volumes; labels of
nodes are written `label=value`.
"""


def unknown_choice() -> str:
    """Return the message for a name that is not in `CHOICES`."""
    return _("Policies can't list allowed values of this field. Valid: %(known)s") % {
        "known": ", ".join(CHOICES)
    }
