"""The errors of a case or a foreign object that can't be read."""

from __future__ import annotations


class Skipped(Exception):
    """A case that needs a feature that the engine does not have; `why` names it."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class BadCase(ValueError):
    """A case whose input or expectation cannot be read; the message names the part."""


class ObjectError(ValueError):
    """An object that cannot be read: `where` names kind, object and field, `what` the error."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.where, self.what = where, what
