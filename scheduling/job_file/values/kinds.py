"""The kinds of values in a job file: the accepted input of each, and its parsed form.

A kind parses a value of a `Section`, which records errors. It does not know its field's name, default or
meaning; `fields` declares these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from django.utils.translation import gettext as _

from foundation.core.quantities import QuantityError, gettext_noop, parse_cpu, parse_percent
from scheduling.job_file.values.memory import read_memory, written_memory
from scheduling.job_file.values.section import Section
from scheduling.job_file.values.terms import read_labels, read_node_terms, read_pod_terms, read_selector

LARGEST: Final = 2**31 - 1
"""The largest value of an integer column."""
CPU_MAX: Final = 100_000_000
"""The largest amount in millicores; no node has as much."""
MEMORY_MAX: Final = 1 << 30
"""The largest amount in MiB; no node has as much."""


class FieldKind(Protocol):
    """One kind of value."""

    @property
    def words(self) -> str:
        """The type and its bounds, in English, for the documentation."""

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        """Return the checked value of `key` in the platform's unit; `default` if it is omitted."""


class Amount(FieldKind, Protocol):
    """A kind whose values can be compared, so that a policy can limit them."""

    def parse_amount(self, value: Any) -> int:
        """Return a value that a user writes, in the platform's unit. Raises: QuantityError."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within bounds."""

    low: int = 0
    high: int = LARGEST

    @property
    def words(self) -> str:
        return f"whole number, {_range(self.low, self.high)}"

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        if not part.has_key(key):
            return default
        return part.read_integer(
            key, default=self.low if default is None else default, low=self.low, high=self.high
        )

    def parse_amount(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
            raise QuantityError(gettext_noop("Must be a whole number from 0 to %(high)s."), high=str(LARGEST))
        return value


@dataclass(frozen=True, slots=True)
class Number:
    """A number within bounds, with or without a fraction."""

    low: float
    high: float

    @property
    def words(self) -> str:
        return f"number, {self.low:,} to {self.high:,}"

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        found = part.read_number(key, low=self.low, high=self.high)
        return default if found is None else found


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    words: ClassVar[str] = "true or false"

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        return part.read_flag(key, default=bool(default)) if part.has_key(key) else default


@dataclass(frozen=True, slots=True)
class Form:
    """A form of text: `fits` checks it, `sentence` is the message if it does not fit."""

    fits: Callable[[str], object]
    sentence: str
    code: str = "FORMAT"

    @classmethod
    def of_pattern(cls, pattern: str, sentence: str) -> Form:
        """Return the form of texts that fully match a regular expression."""
        return cls(re.compile(pattern).fullmatch, sentence)


@dataclass(frozen=True, slots=True)
class Text:
    """A text of at most `limit` characters that has all `forms`."""

    limit: int
    forms: tuple[Form, ...] = ()

    @property
    def words(self) -> str:
        return f"text, at most {self.limit:,} characters"

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        if not part.has_key(key):
            return default
        text = part.read_text(key, limit=self.limit)
        if text == part.values[key]:
            check_forms(part, key, text, self.forms)
        return text


@dataclass(frozen=True, slots=True)
class ChoiceKind:
    """One of a few words."""

    among: tuple[str, ...]
    labels: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return ", ".join(f"`{option}`" for option in self.among)

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        return part.read_choice(key, self.among, default=default or "") or default


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU in millicores; with `written` as text with its unit, which is its form in the JSON for pods."""

    written: bool = False
    words: ClassVar[str] = "CPU: `8`, `0.5` or `500m`"

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        found = _amount(part, key, parse_cpu, high=CPU_MAX)
        return default if found is None else f"{found}m" if self.written else found

    def parse_amount(self, value: Any) -> int:
        return _limit(value, parse_cpu)

    def format_amount(self, amount: int) -> str:
        """An amount as a job file writes it."""
        return f"{amount}m" if amount % 1000 else str(amount // 1000)


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory in MiB; with `written` as text with its unit, which is its form in the JSON for pods."""

    written: bool = False
    low: int = 0
    words: ClassVar[str] = "memory with its unit: `64Gi` or `20480Mi`"

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        found = _amount(part, key, read_memory, low=self.low, high=MEMORY_MAX)
        return default if found is None else f"{found}Mi" if self.written else found

    def parse_amount(self, value: Any) -> int:
        return _limit(value, read_memory)

    def format_amount(self, amount: int) -> str:
        """An amount as a job file writes it."""
        return written_memory(amount)


@dataclass(frozen=True, slots=True)
class Percent:
    """A share of a card's compute in whole percent."""

    words: ClassVar[str] = "percent, 1 to 100"

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        found = _amount(part, key, parse_percent)
        return default if found is None else found

    def parse_amount(self, value: Any) -> int:
        return int(parse_percent(value))


@dataclass(frozen=True, slots=True)
class CardMemory(Memory):
    """Memory of a card: in MiB, or in percent of the card as text."""

    words: ClassVar[str] = "memory with its unit or in percent: `20480Mi`, `20Gi` or `50%`"

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        value = part.values.get(key)
        if isinstance(value, str) and value.strip().endswith("%"):
            found = _amount(part, key, parse_percent)
            return default if found is None else f"{found}%"
        return Memory.read_value(self, part, key, default)


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of at most `most` texts; `empty` is the message for an empty list, if it is not allowed."""

    most: int
    length: int = 4096
    forms: tuple[Form, ...] = ()
    empty: str = ""
    one: bool = False
    """Whether a single text is accepted as a list of one."""

    @property
    def words(self) -> str:
        alone = "text, or " if self.one else ""
        return f"{alone}list of at most {self.most:,} texts"

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        if self.one and isinstance(part.values.get(key), str):
            return [part.read_text(key, limit=self.length)]
        found = part.read_texts(key, limit=self.most, length=self.length)
        for index, text in enumerate(found):
            check_forms(part, f"{key}.{index}", text, self.forms)
        if self.empty and part.has_key(key) and not found:
            part.add_problem(key, "REQUIRED", _(self.empty))
        return list(found) if part.has_key(key) else default


@dataclass(frozen=True, slots=True)
class Tags(Texts):
    """A list of short texts without duplicates."""

    @property
    def words(self) -> str:
        return f"list of at most {self.most} texts, each at most {self.length} characters without commas"

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        found = Texts.read_value(self, part, key, default)
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Wholes:
    """A list of whole numbers within bounds."""

    low: int
    high: int
    most: int

    @property
    def words(self) -> str:
        return f"list of at most {self.most} whole numbers, {_range(self.low, self.high)} each"

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        found = []
        for index, value in enumerate(part.read_items(key, limit=self.most)):
            if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
                limits = {"low": self.low, "high": self.high}
                sentence = _("Must be a whole number from %(low)s to %(high)s.") % limits
                part.add_problem(f"{key}.{index}", "RANGE", sentence)
            else:
                found.append(value)
        return found if part.has_key(key) else default


@dataclass(frozen=True, slots=True)
class LabelsKind:
    """Labels and their values; with `own` those of the job's tasks, among which the platform's are
    reserved."""

    own: bool = False
    words: ClassVar[str] = "mapping of at most 64 labels to values"

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        return (read_labels if self.own else read_selector)(part, key)


@dataclass(frozen=True, slots=True)
class NodeTerms:
    """Conditions on nodes: `required`, and `preferred` with weights."""

    words: ClassVar[str] = (
        "`required`: terms of expressions; `preferred`: such terms with a `weight`, 1 to 100"
    )

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        return read_node_terms(part, key)


@dataclass(frozen=True, slots=True)
class PodTerms:
    """Conditions on other tasks in the same domain: `required`, and `preferred` with weights."""

    words: ClassVar[str] = (
        "`required`, and `preferred` with a `weight`: terms with `topology_key`, `match_labels`, `match_expressions`"  # noqa: E501
    )

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        return read_pod_terms(part, key)


@dataclass(frozen=True, slots=True)
class PartKind:
    """A mapping whose fields are declared below it; exactly one of the fields `one_of` must be set."""

    name: str
    """The name of its component in the REST schema, where `File` is appended."""
    one_of: tuple[str, ...] = ()
    words: ClassVar[str] = "mapping"

    def read_value(self, part: Section, key: str, default: Any) -> Any:
        raise NotImplementedError("its fields are read one by one")


@dataclass(frozen=True, slots=True)
class Parts(PartKind):
    """A list of at most `most` mappings."""

    most: int = 32

    @property
    def words(self) -> str:  # type: ignore[override]
        return f"list of at most {self.most} mappings"


def check_forms(part: Section, key: str, text: str, forms: Sequence[Form]) -> None:
    """Record an error for the first form that a text does not have."""
    for form in forms:
        if not form.fits(text):
            part.add_problem(key, form.code, _(form.sentence))
            return


def _range(low: int, high: int) -> str:
    return f"at least {low:,}" if high == LARGEST else f"{low:,} to {high:,}"


def _amount(
    part: Section, key: str, read: Callable[[Any], int], *, low: int = 0, high: int = LARGEST
) -> int | None:
    """Return an amount; None if it is omitted or invalid."""
    amount = part.read_quantity(key, read, None)
    if amount is not None and amount > high:
        part.add_problem(key, "RANGE", _("Exceeds the largest possible node."))
        return None
    if amount is not None and amount < low:
        part.add_problem(key, "RANGE", _("Must be greater than 0."))
        return None
    return amount


def _limit(value: Any, read: Callable[[Any], int]) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(gettext_noop("Must be a number or a string."))
    amount = read(value)
    if amount > LARGEST:
        raise QuantityError(gettext_noop("Exceeds the largest possible node."))
    return amount
