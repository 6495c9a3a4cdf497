"""Plug-ins of other packages, called so that whatever goes wrong in one is laid at its door.

The engine's own plug-ins are called bare; the guard costs them nothing. An answer is checked as well:
an array of the wrong length would be stretched or fail far from where it was made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from scheduling.engine.order.protocols import Candidate
from scheduling.engine.placement.index.protocols import Score, Veto
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.index.relevance import Selective
from scheduling.engine.session.session import Session
from scheduling.engine.state.fleet import Bools, Ints, Rows

T = TypeVar("T")


class PluginError(RuntimeError):
    """A plug-in of another package raised, or gave an answer that is none; the message names it."""


class _Guarded:
    """Calls one plug-in, and names it when that fails."""

    kind = "plug-in"

    def __init__(self, plugin: Any, origin: str) -> None:
        self._plugin = plugin
        self._origin = origin
        self.name: str = plugin.name

    def _call(self, call: Callable[..., T], *arguments: object) -> T:
        try:
            return call(*arguments)
        except Exception as error:
            raise self._error(f"raised {type(error).__name__}: {error}") from error

    def _error(self, what: str) -> PluginError:
        return PluginError(f"the {self.kind} {self.name} of {self._origin} {what}")

    def _checked(self, answer: Any, rows: Rows, question: Question, kinds: str, wanted: str) -> Any:
        size = len(range(len(question.fleet))[rows]) if isinstance(rows, slice) else len(rows)
        if not isinstance(answer, np.ndarray) or answer.dtype.kind not in kinds or answer.shape != (size,):
            given = type(answer).__name__
            if isinstance(answer, np.ndarray):
                given = f"an array {answer.shape} of {answer.dtype}"
            raise self._error(f"gave {given} instead of an array ({size},) of {wanted}")
        return answer


class _GuardedOnNodes(_Guarded):
    """A veto or score; where it does not tell whom it concerns, it concerns everybody."""

    def applies(self, question: Question) -> bool:
        """Whether it has to be asked."""
        plugin = self._plugin
        return self._call(plugin.applies, question) if isinstance(plugin, Selective) else True


class GuardedVeto(_GuardedOnNodes):
    """A veto of another package."""

    kind = "veto"

    def __init__(self, plugin: Veto, origin: str) -> None:
        super().__init__(plugin, origin)
        self.fixed = plugin.fixed

    def allows(self, question: Question, rows: Rows) -> Bools:
        """What the plug-in answers.

        Raises:
            PluginError: when it raises, or answers with anything but one truth value per row.
        """
        answer = self._call(self._plugin.allows, question, rows)
        allowed: Bools = self._checked(answer, rows, question, "b", "truth values")
        return allowed


class GuardedScore(_GuardedOnNodes):
    """A score of another package."""

    kind = "score"

    def __init__(self, plugin: Score, origin: str) -> None:
        super().__init__(plugin, origin)
        self.normalised = plugin.normalised

    def score(self, question: Question, rows: Rows) -> Ints:
        """What the plug-in answers.

        Raises:
            PluginError: when it raises, or answers with anything but one whole number per row.
        """
        answer = self._call(self._plugin.score, question, rows)
        scores: Ints = self._checked(answer, rows, question, "iu", "whole numbers")
        return scores


class GuardedOrder(_Guarded):
    """An order of another package."""

    kind = "order"

    def key(self, candidate: Candidate) -> Any:
        """What the plug-in answers.

        Raises:
            PluginError: when it raises.
        """
        return self._call(self._plugin.key, candidate)


class GuardedPicker(_Guarded):
    """A device picker of another package."""

    kind = "device picker"

    def pick(self, question: Question, row: int) -> tuple[int, ...]:
        """What the plug-in answers.

        Raises:
            PluginError: when it raises, or does not pick as many different cards that fit as are asked for.
        """
        picked = tuple(self._call(self._plugin.pick, question, row))
        fitting = set(np.flatnonzero(question.fitting(slice(row, row + 1))[0]).tolist())
        if len(picked) != question.task.cards or len(set(picked) & fitting) != len(picked):
            wanted = f"{question.task.cards} of {sorted(fitting)}"
            raise self._error(f"picked {picked} instead of {wanted}")
        return picked


class GuardedAction(_Guarded):
    """An action of another package."""

    kind = "action"

    def run(self, session: Session) -> None:
        """Run the plug-in.

        Raises:
            PluginError: when it raises.
        """
        self._call(self._plugin.run, session)
