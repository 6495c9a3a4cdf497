"""Guards around plug-ins of other packages: an error of a plug-in is reported with the name of its package.

The engine calls its own plug-ins directly, so the guard costs them nothing. A guard checks each result too:
numpy would broadcast an array of the wrong length, or fail far away from the plug-in that returned it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from scheduling.engine.model import Extended
from scheduling.engine.order.protocols import Candidate
from scheduling.engine.placement.index.protocols import ResourcePicker, Score, Veto
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.index.relevance import Selective
from scheduling.engine.session.session import Session
from scheduling.engine.state.fleet import Bools, Ints, Rows

T = TypeVar("T")


class PluginError(RuntimeError):
    """A plug-in of another package raised, or returned a value of the wrong shape; the message names it."""


class _Guarded:
    """The base of all guards: it calls one plug-in and names it in the error when the call fails."""

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

    def _checked(self, result: Any, rows: Rows, question: Question, kinds: str, wanted: str) -> Any:
        size = len(range(len(question.fleet))[rows]) if isinstance(rows, slice) else len(rows)
        if not isinstance(result, np.ndarray) or result.dtype.kind not in kinds or result.shape != (size,):
            given = type(result).__name__
            if isinstance(result, np.ndarray):
                given = f"an array {result.shape} of {result.dtype}"
            raise self._error(f"gave {given} instead of an array ({size},) of {wanted}")
        return result


class _GuardedOnNodes(_Guarded):
    """A guarded veto or score. A plug-in without `applies` is called for every task shape."""

    def applies(self, question: Question) -> bool:
        """Return whether the plug-in has to be called for this task shape."""
        plugin = self._plugin
        return self._call(plugin.applies, question) if isinstance(plugin, Selective) else True


class GuardedVeto(_GuardedOnNodes):
    """The guard of a veto: a filter of nodes."""

    kind = "veto"

    def __init__(self, plugin: Veto, origin: str) -> None:
        super().__init__(plugin, origin)
        self.fixed = plugin.fixed

    def allows(self, question: Question, rows: Rows) -> Bools:
        """Return the plug-in's result `[rows]`: True for a node that may take the task.

        Raises:
            PluginError: when the plug-in raises, or returns anything but one truth value per row.
        """
        result = self._call(self._plugin.allows, question, rows)
        allowed: Bools = self._checked(result, rows, question, "b", "truth values")
        return allowed


class GuardedScore(_GuardedOnNodes):
    """The guard of a score: a preference among nodes."""

    kind = "score"

    def __init__(self, plugin: Score, origin: str) -> None:
        super().__init__(plugin, origin)
        self.normalised = plugin.normalised

    def score(self, question: Question, rows: Rows) -> Ints:
        """Return the plug-in's result `[rows]`: a higher number for a better node.

        Raises:
            PluginError: when the plug-in raises, or returns anything but one whole number per row.
        """
        result = self._call(self._plugin.score, question, rows)
        scores: Ints = self._checked(result, rows, question, "iu", "whole numbers")
        return scores


class GuardedOrder(_Guarded):
    """The guard of an order of jobs."""

    kind = "order"

    def key(self, candidate: Candidate) -> Any:
        """Return the plug-in's sort key; the job with the lowest key comes first.

        Raises:
            PluginError: when the plug-in raises.
        """
        return self._call(self._plugin.key, candidate)


class GuardedPicker(_Guarded):
    """The guard of a device picker, which chooses cards of a node."""

    kind = "device picker"

    def pick(self, question: Question, row: int) -> tuple[int, ...]:
        """Return the columns of the chosen cards of one row.

        Raises:
            PluginError: when the plug-in raises, or does not choose as many different cards that fit as the
                task requests.
        """
        picked = tuple(self._call(self._plugin.pick, question, row))
        fitting = set(np.flatnonzero(question.fitting(slice(row, row + 1))[0]).tolist())
        if len(picked) != question.task.cards or len(set(picked) & fitting) != len(picked):
            wanted = f"{question.task.cards} of {sorted(fitting)}"
            raise self._error(f"picked {picked} instead of {wanted}")
        return picked


class GuardedResourcePicker(GuardedPicker):
    """The guard of a device picker that also allocates named resources of the node."""

    def pick_resources(self, question: Question, row: int) -> tuple[Extended, ...]:
        """Return the amounts that the task takes of one row.

        Raises:
            PluginError: when the plug-in raises.
        """
        return tuple(self._call(self._plugin.pick_resources, question, row))


def guard_picker(plugin: Any, point: str) -> GuardedPicker:
    """Return the guard of a device picker, by what it allocates."""
    guard = GuardedResourcePicker if isinstance(plugin, ResourcePicker) else GuardedPicker
    return guard(plugin, point)


class GuardedAction(_Guarded):
    """The guard of an action, a step of the cycle."""

    kind = "action"

    def run(self, session: Session) -> None:
        """Run the plug-in.

        Raises:
            PluginError: when the plug-in raises.
        """
        self._call(self._plugin.run, session)
