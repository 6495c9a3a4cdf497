"""The declaration of a field of a job file."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any

from scheduling.job_file.values.kinds import FieldKind


class Shown(StrEnum):
    """The group of the console's form that shows a field."""

    BASICS = "basics"
    ROLE = "role"
    REQUEST = "request"
    PROGRAM = "program"
    ADVANCED = "advanced"
    TEXTS = "texts"
    SIMULATION = "simulation"


class Limited(StrEnum):
    """The ways in which a policy may limit a field: its amount, or the list of its values."""

    AMOUNT = "amount"
    VALUES = "values"


@dataclass(frozen=True, slots=True)
class Field:
    """One field.

    `label` is its name for users; `help` describes it, and is translated if the console shows it.

    `default` is the value of an omitted field; `otherwise` describes what applies if there is no such value.
    `required` is the message for a missing field. `only` names the modes of cards, or the sibling fields,
    without which the field has no meaning.

    `column` is its name in `JobSpec`, `RoleSpec` and the rows, if that is not the last part of the path. A
    field `for_pods` has no column: it is stored in JSON that is only used to build pods. A field `engine` is
    also a field of the engine's job, with the same name.

    `form` is the group of the console's form that shows the field (None: it is written as YAML), `input` its
    name there if that is not the last part of the path, `unit` the unit behind it.
    """

    path: str
    kind: FieldKind
    _: KW_ONLY
    help: str = ""
    label: str = ""
    unit: str = ""
    default: Any = None
    otherwise: str = ""
    required: str = ""
    only: tuple[str, ...] = ()
    column: str = ""
    for_pods: bool = False
    engine: bool = False
    policy: Limited | None = None
    form: Shown | None = None
    input: str = ""
    example: str = ""

    @property
    def key(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def parent(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """The field's name in specifications and rows."""
        return self.column or self.key

    @property
    def input_name(self) -> str:
        """The field's name in the console's form."""
        return self.input or self.key
