"""The load of a card by a pod: a smooth curve over time, derived from the pod's name.

The curve is a mean, two slow waves and a warm-up. Heat and power follow it with a delay; both are
functions of time, because no process could store the last reading.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Self

from clusters.backends.simulated import chance

WARM_UP_S: Final = 20.0  # time constant: data loading and compilation precede full load
HEAT_S: Final = 45.0
POWER_S: Final = 4.0
_COOLED_S: Final = 8 * HEAT_S  # after that an ended pod no longer warms its card
SWELL: Final = 0.06
RIPPLE: Final = 0.04
WHOLE_CARD: Final = 100
UNLIMITED: Final = 1.35
"""Share of its allocation that a pod without limits uses."""


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """The shape of one pod's load; `mean` is a share (0..1) of its allocated compute.

    `most`: the largest share that its limits permit.
    """

    mean: float
    swell_s: float
    swell_at: float
    ripple_s: float
    ripple_at: float
    memory_share: float
    most: float = 1.0

    @classmethod
    def for_pod(cls, pod: str, mean: float) -> Self:
        return cls(
            mean=mean,
            swell_s=chance.random_between(420, 900, pod, "swell"),
            swell_at=chance.random_fraction(pod, "swell-at"),
            ripple_s=chance.random_between(35, 90, pod, "ripple"),
            ripple_at=chance.random_fraction(pod, "ripple-at"),
            memory_share=chance.random_between(0.55, 0.95, pod, "memory"),
        )

    @property
    def is_limited(self) -> bool:
        """Return whether the pod is limited to its allocation."""
        return self.most <= 1.0

    def without_limits(self) -> Self:
        """Return the load of the same pod without limits."""
        return replace(self, mean=UNLIMITED, memory_share=UNLIMITED, most=2 * UNLIMITED)

    def compute_share(self, at_s: float, age_s: float) -> float:
        """Return the share (0 to `most`) of its compute in use at `at_s` since 1970, at the age `age_s`."""
        swell = SWELL * math.sin(math.tau * (at_s / self.swell_s + self.swell_at))
        ripple = RIPPLE * math.sin(math.tau * (at_s / self.ripple_s + self.ripple_at))
        return min(self.most, max(0.0, self.mean * (1.0 + swell + ripple))) * _approach(age_s, WARM_UP_S)

    def memory_used(self, grant_mib: int, age_s: float) -> int:
        """Return the MiB in use of a grant: soon a constant share of it, as frameworks keep their memory."""
        return int(grant_mib * self.memory_share * _approach(age_s, WARM_UP_S / 4))

    def lagged_share(self, at_s: float, age_s: float, ended_s: float | None, lag_s: float) -> float:
        """Return the load (0..1) as followed with the time constant `lag_s`, such as by the temperature.

        `ended_s`: seconds since the end, None while the pod runs.
        """
        since_end_s = ended_s or 0.0
        felt_age, last_s = age_s - since_end_s, at_s - since_end_s
        # The waves are slow compared with the lag, so only their delay matters, not their damping.
        felt = self.compute_share(last_s - min(lag_s, felt_age), felt_age) * _approach(felt_age, lag_s)
        return felt if ended_s is None else felt * math.exp(-ended_s / lag_s)


@dataclass(slots=True)
class LoadCurves:
    """Makes the curves of pods, in the order in which the pods started.

    `unlimited`: the cards on which one pod ignores its limits: the first that holds a part of the card.
    """

    unlimited: set[str]

    def curve_of(self, pod: str, device_uuid: str, cores: int, mean: float, *, running: bool) -> LoadCurve:
        """Return the curve of a pod on a card, of which it is allocated `cores` percent points."""
        curve = LoadCurve.for_pod(f"{pod}/{device_uuid}", mean)
        if not running or cores >= WHOLE_CARD or device_uuid not in self.unlimited:
            return curve
        self.unlimited.remove(device_uuid)
        return curve.without_limits()


def has_cooled(ended_s: float) -> bool:
    """Return whether a pod that ended `ended_s` seconds ago no longer warms its card."""
    return ended_s >= _COOLED_S


def _approach(age_s: float, lag_s: float) -> float:
    return 1.0 - math.exp(-max(age_s, 0.0) / lag_s)
