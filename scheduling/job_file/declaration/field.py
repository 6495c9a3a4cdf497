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

    `label` is what people read; `help` says more, and is translated where the console shows it.

    `default` is written into the job where the file leaves the field open; `otherwise` says in words what
    counts where there is no such value. `required` is what is said where it is missing. `only` names the
    modes of cards, or the siblings, without which the field has no meaning.

    `column` is its name in `JobSpec`, `RoleSpec` and the rows, where that is not the last part of the path. A
    field `for_pods` has no column: it is kept in the JSON that only the makers of pods read. What the engine
    has to know of a whole job is marked `engine`, and has the same name there.

    `form` is where the console's form shows the field (nowhere: it is written as YAML), `input` its name
    there where that is not the last part of the path, `unit` what is written behind it.
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
        """Its name in specifications and rows."""
        return self.column or self.key

    @property
    def input_name(self) -> str:
        """Its name in the console's form."""
        return self.input or self.key
