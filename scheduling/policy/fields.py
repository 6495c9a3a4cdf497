"""The fields of a job file that a policy may limit, and how each is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from clusters.backends.base import GRACE_S
from foundation.core.quantities import QuantityError, parse_cpu, parse_percent
from scheduling.job_file import JobSpec, RoleSpec
from scheduling.job_file.memory import read_memory

LARGEST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Found:
    """The value of a limited field at one place of a job: None where the job names none (no limit).

    `unit_differs`: it is named in a unit that cannot be compared with the limit.
    """

    path: str
    amount: int | None
    unit_differs: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """`parse` reads a limit as a job file writes it; `places` finds the values of a job in that unit."""

    name: str
    parse: Callable[[Any], int]
    places: Callable[[JobSpec], Iterator[Found]]


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise QuantityError(gettext_noop("must be a whole number from 0 to %(high)s"), high=str(LARGEST))
    return value


def _percent(value: Any) -> int:
    return int(parse_percent(value))


def _bounded(parse: Callable[[Any], int]) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise QuantityError(gettext_noop("must be a number or text"))
        amount = parse(value)
        if amount > LARGEST:
            raise QuantityError(gettext_noop("is more than any node could have"))
        return amount

    return read


def _job(name: str, read: Callable[[JobSpec], int | None], path: str = "") -> Field:
    return Field(name, _whole, lambda spec: iter([Found(path or name, read(spec))]))


def _role(name: str, read: Callable[[RoleSpec], int | None], parse: Callable[[Any], int] = _whole) -> Field:
    def places(spec: JobSpec) -> Iterator[Found]:
        for index, role in enumerate(spec.roles):
            yield Found(f"roles.{index}.{name}", read(role))

    return Field(f"roles.{name}", parse, places)


def _gpu(name: str, read: Callable[[Any], int | None], parse: Callable[[Any], int] = _whole) -> Field:
    """A field of the cards of each role that asks for some; None where their mode does not have it."""

    def places(spec: JobSpec) -> Iterator[Found]:
        for index, role in enumerate(spec.roles):
            amount = None if role.gpu is None else read(role.gpu)
            path = f"roles.{index}.resources.gpu.{name}"
            if amount is not None:
                yield Found(path, amount)
            elif name == "memory" and role.gpu is not None and role.gpu.memory_percent is not None:
                yield Found(path, None, unit_differs=True)

    return Field(f"roles.resources.gpu.{name}", parse, places)


def _retries(spec: JobSpec) -> Iterator[Found]:
    for index, rule in enumerate(spec.lifecycle):
        if "max" in rule:
            yield Found(f"lifecycle.{index}.max", int(rule["max"]))


def _limit(name: str, asked: Callable[[RoleSpec], int], parse: Callable[[Any], int]) -> Field:
    """How far a task may go beyond what it asks for; that itself, where the role says nothing."""

    def read(role: RoleSpec) -> int:
        said = role.container.get("limits", {}).get(name)
        return asked(role) if said is None else parse(said)

    return _role(f"resources.limits.{name}", read, parse)


def _empty_volumes(spec: JobSpec) -> Iterator[Found]:
    for index, volume in enumerate(spec.volumes):
        if "empty" in volume:
            yield Found(f"volumes.{index}.empty", int(read_memory(volume["empty"])))


_ALL: Final = (
    _job("min_run_s", lambda spec: spec.min_run_s),
    _job("max_run_s", lambda spec: spec.max_run_s),
    _job("checkpoint_interval_s", lambda spec: spec.checkpoint_interval_s),
    _job("gang.min_available", lambda spec: spec.min_available),
    _role("replicas", lambda role: role.replicas),
    _role("min_replicas", lambda role: role.min_replicas),
    _role("resources.cpu", lambda role: role.cpu_millicores, _bounded(parse_cpu)),
    _role("resources.memory", lambda role: role.memory_mib, _bounded(read_memory)),
    _limit("cpu", lambda role: role.cpu_millicores, _bounded(parse_cpu)),
    _limit("memory", lambda role: role.memory_mib, _bounded(read_memory)),
    _gpu("cards", lambda gpu: gpu.cards),
    _gpu("cores", lambda gpu: gpu.cores or None, _percent),
    _gpu("memory", lambda gpu: gpu.memory_mib, _bounded(read_memory)),
    Field("lifecycle.max", _whole, _retries),
    Field("volumes.empty", _bounded(read_memory), _empty_volumes),
    _job("termination_grace_s", lambda spec: spec.runtime.get("termination_grace_s", GRACE_S)),
    _job("total.tasks", lambda spec: spec.task_count, "roles"),
    _job("total.gpu.cards", lambda spec: spec.demand().get("gpu.cards", 0), "roles"),
)
FIELDS: Final = {field.name: field for field in _ALL}
CAPPED: Final = frozenset({"min_run_s"})
"""Asked for beyond the maximum, these are cut to it and not refused: protection is a wish."""


def amount_of(name: str, value: Any) -> int:
    """A limit as a number of the field's unit: seconds, millicores, MiB, percent points, or a count.

    Raises: QuantityError with the sentence for whoever wrote it; KeyError for no such field.
    """
    return FIELDS[name].parse(value)


def unknown_field() -> str:
    """The sentence for a name that is none of `FIELDS`."""
    return _("A policy cannot limit this; it limits: %(known)s") % {"known": ", ".join(FIELDS)}
