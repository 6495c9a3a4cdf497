"""The cause of a container's end, as the cluster reports it."""

from __future__ import annotations

import signal
from typing import Any, Final

from clusters.backends.base import PodObservation, PodPhase

_SAYS_NOTHING: Final = ("", "Error", "Completed")
_SIGNALS: Final = {128 + number.value: number.name for number in signal.Signals}
"""The signal that ended a program by exit code, as shells and container runtimes encode it."""


def signal_name(exit_code: int | None) -> str:
    """Return the name of the signal that an exit code reports; "" if no signal ended the program."""
    return "" if exit_code is None else _SIGNALS.get(exit_code, "")


def ending_message(seen: PodObservation) -> str:
    """Return the message of a task whose pod has ended: the reason or signal, and the cluster's message."""
    if seen.phase is PodPhase.REMOVED:
        return seen.message or "the pod was deleted by somebody else"
    parts = [] if seen.reason in _SAYS_NOTHING else [seen.reason]
    if not parts and (name := signal_name(seen.exit_code)):
        parts.append(f"killed by {name}")
    return ": ".join([*parts, *([seen.message] if seen.message else [])])


def ending_numbers(seen: PodObservation) -> dict[str, Any]:
    """Return the numbers of an event for the end of a pod: pod, exit code, message, and a reason or
    signal."""
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
