"""The cause of a container's end, in the words of the cluster."""

from __future__ import annotations

import signal
from typing import Any, Final

from clusters.backends.base import PodObservation, PodPhase

_SAYS_NOTHING: Final = ("", "Error", "Completed")
_SIGNALS: Final = {128 + number.value: number.name for number in signal.Signals}
"""By exit code, the signal that ended a program, as shells and container runtimes write it."""


def signal_name(exit_code: int | None) -> str:
    """The signal behind an exit code; "" for a program that ended by itself."""
    return "" if exit_code is None else _SIGNALS.get(exit_code, "")


def ending_message(seen: PodObservation) -> str:
    """The message of a task whose pod has ended: reason, signal, and what the cluster says besides."""
    if seen.phase is PodPhase.REMOVED:
        return seen.message or "the pod was deleted by somebody else"
    parts = [] if seen.reason in _SAYS_NOTHING else [seen.reason]
    if not parts and (name := signal_name(seen.exit_code)):
        parts.append(f"killed by {name}")
    return ": ".join([*parts, *([seen.message] if seen.message else [])])


def ending_numbers(seen: PodObservation) -> dict[str, Any]:
    """The same for an event: pod, exit code, message, and reason and signal where there are any."""
    numbers: dict[str, Any] = {
        "pod": seen.ref.name,
        "exit_code": seen.exit_code,
        "message": seen.message[:300],
    }
    if seen.phase is PodPhase.FAILED and seen.reason not in _SAYS_NOTHING:
        numbers["reason"] = seen.reason
    elif seen.phase is PodPhase.FAILED and (name := signal_name(seen.exit_code)):
        numbers["signal"] = name
    return numbers
