"""The fields of a job file that a policy may limit, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from django.utils.translation import gettext as _

from clusters.backends.base import GRACE_S
from scheduling.job_file import JobSpec
from scheduling.job_file.declaration.field import Limited
from scheduling.job_file.declaration.fields import ALL, FIELDS
from scheduling.job_file.values.kinds import Amount, Whole
from scheduling.policy.trees import values_at


@dataclass(frozen=True, slots=True)
class Found:
    """The value of a limited field at one place of a job: None if the job sets none (no limit).

    `unit_differs`: it is given in a unit that cannot be compared with the limit.
    """

    path: str
    amount: int | None
    unit_differs: bool = False


File = Mapping[str, Any]
Places = Callable[[JobSpec, File], Iterator[Found]]


@dataclass(frozen=True, slots=True)
class LimitedField:
    """A field with a limit: `kind` parses a limit, `places` finds the values of a job in the same unit.

    `places` gets the job and its file with all defaults filled in.
    """

    name: str
    kind: Amount
    places: Places


def _declared(path: str) -> LimitedField:
    kind = cast(Amount, FIELDS[path].kind)

    def find_places(spec: JobSpec, file: File) -> Iterator[Found]:
        for place, value in values_at(file, path):
            yield Found(place, None if value is None else kind.parse_amount(value))

    return LimitedField(path, kind, _OWN.get(path, find_places))


def _up_to(key: str, column: str) -> Places:
    """Return the finder of a task's resource limit, which is its request if the role sets no limit."""
    path = f"resources.limits.{key}"
    kind = cast(Amount, FIELDS[f"roles.{path}"].kind)

    def find_places(spec: JobSpec, file: File) -> Iterator[Found]:
        for index, role in enumerate(spec.roles):
            said = role.container.get("limits", {}).get(key)
            amount = getattr(role, column) if said is None else kind.parse_amount(said)
            yield Found(f"roles.{index}.{path}", amount)

    return find_places


def _cores(spec: JobSpec, file: File) -> Iterator[Found]:
    """Yield the cores of slices. Whole cards and MIG instances have none: the latter depend on the flavor."""
    for index, role in enumerate(spec.roles):
        if role.gpu is not None and role.gpu.cores:
            yield Found(f"roles.{index}.resources.gpu.cores", role.gpu.cores)


def _card_memory(spec: JobSpec, file: File) -> Iterator[Found]:
    for index, role in enumerate(spec.roles):
        gpu = role.gpu
        if gpu is not None and (gpu.memory_mib is not None or gpu.memory_percent is not None):
            path = f"roles.{index}.resources.gpu.memory"
            yield Found(path, gpu.memory_mib, unit_differs=gpu.memory_mib is None)


def _grace(spec: JobSpec, file: File) -> Iterator[Found]:
    yield Found("termination_grace_s", spec.runtime.get("termination_grace_s", GRACE_S))


_OWN: Final[Mapping[str, Places]] = {
    "roles.resources.gpu.cores": _cores,
    "roles.resources.gpu.memory": _card_memory,
    "roles.resources.limits.cpu": _up_to("cpu", "cpu_millicores"),
    "roles.resources.limits.memory": _up_to("memory", "memory_mib"),
    "termination_grace_s": _grace,
}
"""Finders for fields that have a value if a job sets none, or that not every mode of cards has."""
TOTALS: Final = (
    LimitedField("total.tasks", Whole(), lambda spec, file: iter([Found("roles", spec.task_count)])),
    LimitedField(
        "total.gpu.cards",
        Whole(),
        lambda spec, file: iter([Found("roles", spec.total_demand().get("gpu.cards", 0))]),
    ),
)
LIMITED: Final[Mapping[str, LimitedField]] = {
    **{field.path: _declared(field.path) for field in ALL if field.policy is Limited.AMOUNT},
    **{total.name: total for total in TOTALS},
}
CAPPED: Final = frozenset({"min_run_s"})
"""Fields whose values are reduced to the maximum; a job with a larger value is not refused."""


def amount_of(name: str, value: Any) -> int:
    """Return a limit as a number in the field's unit: seconds, millicores, MiB, percent points, or a count.

    Raises: QuantityError with a message for the user; KeyError for an unknown field.
    """
    return LIMITED[name].kind.parse_amount(value)


def unknown_field() -> str:
    """Return the message for a name that is not in `LIMITED`."""
    return _("Policies can't limit this field. Valid: %(known)s") % {"known": ", ".join(LIMITED)}
