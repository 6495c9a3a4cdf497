"""Plug-ins that leave the questions alone which they do not concern."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar, runtime_checkable

from scheduling.engine.placement.index.question import Question

P = TypeVar("P", bound=Any)


@runtime_checkable
class Selective(Protocol):
    """A veto or score that can tell for good whether it ever says anything to a question.

    The answer may rest on the shape and on the size of the fleet, never on labels, health or use.
    """

    def applies(self, question: Question) -> bool:
        """Whether it has to be asked."""
        ...


def concerns(plugin: object, question: Question) -> bool:
    """Whether a plug-in has to be asked; one that does not say is."""
    # Asked of every plug-in after each change of nodes; `isinstance` of a protocol takes ten times as long.
    applies = getattr(plugin, "applies", None)
    return applies is None or bool(applies(question))


def relevant(plugins: Iterable[P], question: Question) -> tuple[P, ...]:
    """Those that have to be asked, in their order."""
    return tuple(plugin for plugin in plugins if concerns(plugin, question))
