"""The declaration of a list by its page: columns, filters and the order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.functional import Promise

from foundation.web.listing import Columns

Text = str | Promise
Choices = Sequence[tuple[str, Text]]
SIZES: Final = (10, 20, 50, 100)
"""The numbers of rows per page that a reader can choose."""
INTERVALS: Final = (5, 10, 30, 60, 0)
"""The refresh intervals in seconds that a reader can choose; 0 means no refresh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListColumn:
    """A column. `text` is its cell in a file, below `file_label`, which names the unit where the cell is a
    plain number; `sort` is the name of the order by this column.

    Columns that are not `shown` are hidden until a reader selects them. The first column is always shown.
    """

    key: str
    label: Text
    text: Callable[[Any], object]
    sort: str = ""
    number: bool = False
    shown: bool = True
    file_label: Text = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterField:
    """A field that readers may filter by; `choices` are its only values, with their words, and `suggestions`
    is the id of the page's list of likely values.
    """

    label: Text
    choices: Choices = ()
    suggestions: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ListDeclaration:
    """A list. `key` names the reader's choice of columns.

    `fields` are the fields of `filterBy`, of which the form offers `filters`; `parameters` are further
    filters of the page, each a parameter of the address. A list without a file of its own links to another
    one. `unfiltered` is the parameter that asks for all rows where the bare address omits some.
    """

    key: str
    title: Text
    columns: Sequence[ListColumn]
    filters: Mapping[str, FilterField] = field(default_factory=dict)
    fields: Columns = field(default_factory=dict)
    parameters: Sequence[str] = ()
    default_sort: str = ""
    size: int = 20
    every_s: int = 10
    has_file: bool = True
    unfiltered: tuple[str, str] | None = None

    @property
    def sorts(self) -> Mapping[str, ListColumn]:
        """The sortable columns by the name of their order."""
        return {column.sort: column for column in self.columns if column.sort}
