"""This module skips plug-ins that are irrelevant to a shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar, runtime_checkable

from scheduling.engine.placement.index.question import Question

P = TypeVar("P", bound=Any)


@runtime_checkable
class Selective(Protocol):
    """A veto or score that knows in advance whether it is ever relevant to a question.

    The result may depend on the shape and on the size of the fleet, never on labels, health or usage.
    """

    def applies(self, question: Question) -> bool:
        """Return whether the plug-in must be evaluated."""
        ...


def is_relevant(plugin: object, question: Question) -> bool:
    """Return whether a plug-in must be evaluated; one without `applies` must."""
    # This is called for every plug-in after each change of nodes; `isinstance` of a protocol takes ten times
    # as long.
    applies = getattr(plugin, "applies", None)
    return applies is None or bool(applies(question))


def select_relevant(plugins: Iterable[P], question: Question) -> tuple[P, ...]:
    """Return the plug-ins that must be evaluated, in their order."""
    return tuple(plugin for plugin in plugins if is_relevant(plugin, question))
