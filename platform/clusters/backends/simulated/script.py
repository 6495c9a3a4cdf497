"""The behavior of a pod on the simulated cluster: the `simulate:` part of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

_LONGEST_S: Final = 10 * 365 * 86_400.0
_DEFAULT_UTILISATION: Final = 0.65


@dataclass(frozen=True, slots=True)
class Script:
    """`run_ms`: simulated milliseconds between start and end, None = until removed. `start_ms`: those from
    creation to start, None = the usual time.

    `utilisation`: mean share (0..1) of its allocated compute that the pod keeps busy.
    """

    run_ms: int | None = None
    exit_code: int = 0
    utilisation: float = _DEFAULT_UTILISATION
    start_ms: int | None = None

    @classmethod
    def read_simulate(cls, simulate: Mapping[str, object]) -> Self:
        """Read the `simulate:` part of a job. Raises: ValueError, which names a value out of range.

        Other keys are ignored: other parts of the platform may have their own.
        """
        start_s = _number(simulate, "start_s", 0.0, _LONGEST_S)
        run_s = _number(simulate, "run_s", 0.0, _LONGEST_S)
        exit_code = _number(simulate, "exit_code", 0, 255)
        utilisation = _number(simulate, "gpu_utilisation", 0.0, 1.0)
        return cls(
            run_ms=None if run_s is None else round(run_s * 1000),
            exit_code=0 if exit_code is None else int(exit_code),
            utilisation=_DEFAULT_UTILISATION if utilisation is None else utilisation,
            start_ms=None if start_s is None else round(start_s * 1000),
        )


def _number(simulate: Mapping[str, object], key: str, low: float, high: float) -> float | None:
    value = simulate.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"simulate.{key} must be a number from {low:g} to {high:g}, not {value!r}")
    return float(value)
